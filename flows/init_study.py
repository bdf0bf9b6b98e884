"""`dpcost init`: a study file and a release file of one's own table, from names and types of columns."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from data.own_table import ColumnType, table_schema
from data.store import atomic_write
from flows.find_study import SCORECARD, study_names
from tasks.faults import SpecError
from tasks.study.study_file import STUDY_FILE_VERSION

FEWEST_ROWS = 10
_NAME = re.compile(r"[a-z][a-z0-9_-]*")

_NUMBERS = """\
lower = "?"    # the least that it can be: from general knowledge, never from these data
upper = "?"    # the most that it can be: from general knowledge, never from these data
"""
_TEXT = """\
categories = ["?"]    # every text that it can hold, the first to compare with: never read off these data
"""
_SOURCE = """\
source = "?"    # how you know, for the report
"""
_STUDY = """\
# {name}: what privacy costs on a table of your own. Written by `dpcost init`, to be completed by you.
#
# Wherever "?" stands, say what is public. Take it from a codebook, a law or common knowledge, never from the
# data: a bound that they decide tells something about them. `dpcost run {name}.toml` says which line is next.
# The report compares with the true answer on your data and is not for publication; `dpcost release` is.

version = {version}    # of what study files look like
title = {title}
question = {question}
task = "{task}"
size_label = "subsample size m"
metric_label = "ℓ2 distance to the answer of all rows, per standard deviation of a column"
{deleted}
[data]
path = {path}
rows = {rows}    # public: neighbours differ in what one row holds, not in how many there are
privacy_unit = "?"    # whose values a row holds, e.g. "one row, a patient"
missing = "refuse"    # or "drop" rows with a missing cell; or impute = 0.0, a constant, below a column's name
{left_out}
# Delete the columns that you do not need. Units are (value - center) / scale; where a column states none,
# center is the middle of its bounds and scale a quarter of their distance. unit = "years" is for the report.
{columns}
[grid]
n = {sizes}
epsilon = [0.5, 1.0, 3.0]
delta = ["1/n^2"]

[replicates]
smoke = 3
standard = 20
paper = 100

[headline]
n = {largest}
epsilon = 0.5
delta = "1/n^2"
panel = "public"

[[panels]]
name = "public"
about = "Columns are put into public units{intercept}; the guarantee covers this."
problem = {problem}

{estimators}"""
_RELEASE = """\
# One private answer about {file}, for publication: written by `dpcost init`, to be completed by you.
#     dpcost ledger open {name} --epsilon 1 --delta 1e-6
#     dpcost release {estimator} --data {file} --config {name}-release.toml --epsilon 0.5 --delta 1e-7
# A release takes the columns as they are in the file: no unit is changed and no intercept is added; text
# must be written as numbers first{to_recode}. Delete the columns that you do not need.

[dataset]
name = "{name}"

[columns]
x = {x}
{y}
[bounds]
{bounds}
[params]
{params}"""

# Estimators that suit a task, in the study's units; sqrt(d) is the length of a row of d entries of order one.
_ESTIMATORS: dict[str, str] = {
    "mean": """\
[[estimators]]
name = "zero"

[[estimators]]
name = "sample_mean"

[[estimators]]
name = "dp_mean"
calibrations = ["tight"]
params = { value_bound = 2.0 }
""",
    "linear": """\
[[estimators]]
name = "zero"

[[estimators]]
name = "ols"

[[estimators]]
name = "preconditioned_regression"
calibrations = ["tight"]

[[estimators]]
name = "adassp"
calibrations = ["tight"]
params = { covariate_bound = "sqrt(d)", response_bound = 2.0 }
""",
    "logistic": """\
[[estimators]]
name = "zero"

[[estimators]]
name = "glm"
params = { family = "logistic" }

[[estimators]]
name = "objective_perturbation_glm"
calibrations = ["tight"]
params = { family = "logistic", covariate_bound = "sqrt(d)" }

[[estimators]]
name = "dp_glm"
calibrations = ["tight"]
params = { family = "logistic", covariate_bound = "sqrt(d)", n_iterations = 20, step_size = "4/d" }
""",
    "poisson": """\
[[estimators]]
name = "zero"

[[estimators]]
name = "glm"
params = { family = "poisson" }

[[estimators]]
name = "dp_glm"
calibrations = ["tight"]

[estimators.params]
family = "poisson"
covariate_bound = "sqrt(d)"
response_bound = 10.0
n_iterations = 20
step_size = "0.5/d"
""",
}
_LENGTH = 'covariate_bound = "?"    # rows of x are clipped to this length; public\n'
_RELEASES: dict[str, tuple[str, str, str]] = {
    "mean": ("dp_mean", 'value_bound = "?"    # every value is clipped to plus or minus this; public\n', ""),
    "linear": ("preconditioned_regression", "", ""),
    "logistic": ("objective_perturbation_glm", _LENGTH, 'family = "logistic"\n'),
    "poisson": (
        "dp_glm",
        _LENGTH + 'response_bound = "?"    # residuals are clipped to plus or minus this; public\n',
        'family = "poisson"\n',
    ),
}


def init_study(
    name: str, data: Path, *, response: str = "", family: str = "", folder: Path
) -> tuple[str, ...]:
    """Write ``NAME.toml`` and ``NAME-release.toml`` and return what to do next, in lines.

    Parameters
    ----------
    name : str
        Of the study.
    data : pathlib.Path
        A CSV or Parquet file.
    response : str
        The column to explain; empty for means.
    family : {"", "linear", "logistic", "poisson"}
        By the response's type if empty: logistic for text, linear for numbers.
    folder : pathlib.Path
        Where to write.

    Raises
    ------
    SpecError, DataError
        In one sentence.
    """
    files = [folder / f"{name}.toml", folder / f"{name}-release.toml"]
    if not _NAME.fullmatch(name) or name in (*study_names(), SCORECARD):
        raise SpecError(
            "NAME must be lower-case letters, digits, '_' and '-', beginning with a letter, and none of the "
            f"studies that come with the project, got {name!r}; take e.g. my-study"
        )
    for file in files:
        if file.exists():
            raise SpecError(f"{file} is there already; choose another name, or move it away")
    schema, rows = table_schema(data)
    model = _model(schema, response, family)
    if rows < FEWEST_ROWS:
        raise SpecError(f"{data} has {rows} rows, a study needs at least {FEWEST_ROWS}; bring more")
    used = {column: kind for column, kind in schema.items() if kind != "empty"}
    if not [column for column in used if column != response]:
        raise SpecError(f"{data} has no column with values beside the response; bring at least one")
    study = _study(name, data, rows, schema, response, model)
    release, estimator = _release(name, data, used, response, model)
    for file, text in zip(files, (study, release), strict=True):
        atomic_write(file, text.encode())
    return (
        f'{files[0]}: say what is public wherever "?" stands, then: dpcost run {files[0]}',
        f"{files[1]}: for publication, with dpcost release {estimator}; its head says how",
        f"read: the names and types of {len(schema)} columns; {rows:,} rows were counted, no value is kept",
    )


def _model(schema: Mapping[str, ColumnType], response: str, family: str) -> str:
    """Return what the study fits: a mean, or which regression."""
    if family not in ("", "linear", "logistic", "poisson"):
        raise SpecError(f"--family must be linear, logistic or poisson, got {family!r}")
    if not response:
        if family:
            raise SpecError(f"--family {family} needs --response; name the column to explain")
        return "mean"
    if response not in schema:
        raise SpecError(
            f"--response must be one of the {len(schema)} columns of the file, got {response!r}; check it"
        )
    kind = schema[response]
    if kind == "empty":
        raise SpecError(f"--response must be a column with values, got {response!r}, which is empty")
    if kind == "text" and family not in ("", "logistic"):
        raise SpecError(f"--family {family} needs numbers, got {response!r}, a column of text; take logistic")
    return family or ("logistic" if kind == "text" else "linear")


def _study(
    name: str, data: Path, rows: int, schema: Mapping[str, ColumnType], response: str, model: str
) -> str:
    empty = [column for column, kind in schema.items() if kind == "empty"]
    sizes = sorted({max(FEWEST_ROWS - 1, share) for share in (rows // 16, rows // 4, rows - rows // 10)})
    problem = ['kind = "subsamples"', 'units = "public"']
    if response:
        problem.append(f"response = {_text(response)}")
    if model in ("logistic", "poisson"):
        problem.append(f'family = "{model}"')
    answer = {"mean": "means", "linear": "linear regression"}.get(model, f"{model} regression")
    return _STUDY.format(
        version=STUDY_FILE_VERSION,
        name=name,
        title=_text(f"{name}: what privacy costs"),
        question=_text(
            f"How far are private answers ({answer}) on m rows from that of all {rows:,} rows of {data.name}?"
        ),
        task={"mean": "mean", "linear": "linear_regression"}.get(model, "glm"),
        deleted="deleted_rows = [1, 5]\n" if model == "linear" else "",
        path=_text(str(data)),
        rows=rows,
        left_out="".join(f"# left out, since it is empty: {_text(column)}\n" for column in empty),
        columns="\n".join(_column(column, kind) for column, kind in schema.items() if kind != "empty"),
        sizes=sizes,
        largest=sizes[-1],
        intercept="" if model == "mean" else " and an intercept is fitted",
        problem=f"{{ {', '.join(problem)} }}",
        estimators=_ESTIMATORS[model],
    )


def _column(name: str, kind: ColumnType) -> str:
    return f"[[data.columns]]\nname = {_text(name)}\n{_TEXT if kind == 'text' else _NUMBERS}{_SOURCE}"


def _release(
    name: str, data: Path, used: Mapping[str, ColumnType], response: str, model: str
) -> tuple[str, str]:
    estimator, bounds, params = _RELEASES[model]
    x = [column for column, kind in used.items() if kind != "text" and column != response]
    return (
        _RELEASE.format(
            name=name,
            file=data.name,
            estimator=estimator,
            x=f"[{', '.join(map(_text, x))}]",
            to_recode=", the response too, as 0 and 1" if used.get(response) == "text" else "",
            y=f"y = {_text(response)}\n" if response else "",
            bounds=bounds,
            params=params,
        ),
        estimator,
    )


def _text(value: str) -> str:
    """Write a text as TOML does."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
