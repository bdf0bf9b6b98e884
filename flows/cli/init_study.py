"""`dpcost init`: a study file and a release file of one's own table, from names and types of columns."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from data.store.folders import atomic_write
from data.tables.analyst_table import ColumnType, count_users, table_schema
from dpalgos import get_estimator
from flows.cli.init_templates import (
    GUESSED_NUMBERS,
    GUESSED_PAIRS,
    GUESSED_RESPONSE,
    GUESSED_TEXT,
    MODELS,
    NUMBERS,
    OF_ROWS,
    OF_USERS,
    RELEASE,
    SOURCE,
    STUDY,
    TEXT,
    InitModel,
)
from flows.studies.find_study import SCORECARD, study_names
from tasks.faults import SpecError
from tasks.release.table import AT_CENTERS
from tasks.study.study_file import STUDY_FILE_VERSION

FEWEST_ROWS = 10
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_FAMILIES = ("linear", "logistic", "poisson", "multinomial")


def init_study(
    name: str,
    data: Path,
    *,
    response: str = "",
    family: str = "",
    user_id: str = "",
    sparsity: int | None = None,
    folder: Path,
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
    family : {"", "linear", "logistic", "poisson", "multinomial"}
        By the response's type if empty: logistic for text, linear for numbers.
    user_id : str
        The column that says whose row it is, where one person has several; empty: a row is protected.
    sparsity : int, optional
        How many entries of the answer are not zero: estimators that choose them.
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
    model = _model(schema, response, family, user_id, sparsity)
    if rows < FEWEST_ROWS:
        raise SpecError(f"{data} has {rows} rows, a study needs at least {FEWEST_ROWS}; bring more")
    users = count_users(data, user_id) if user_id else None
    if users is not None and users < FEWEST_ROWS:
        raise SpecError(f"{data} has {users} users, a study needs at least {FEWEST_ROWS}; bring more")
    used = {column: kind for column, kind in schema.items() if kind != "empty" and column != user_id}
    if not [column for column in used if column != response]:
        raise SpecError(f"{data} has no column with values beside the response; bring at least one")
    empty = [column for column, kind in schema.items() if kind == "empty"]
    seen_from_folder = data if data.is_absolute() else Path(os.path.relpath(data, folder))
    study = _study(name, seen_from_folder, rows, used, empty, response, model, user_id, users)
    release = _release(name, data, used, response, model, user_id)
    for file, text in zip(files, (study, release), strict=True):
        atomic_write(file, text.encode())
    return (
        f'{files[0]}: say what is public wherever "?" stands, then: dpcost run {files[0]}',
        f"{files[1]}: for publication, with dpcost release {model.release}; its head says how",
        f"read: the names and types of {len(schema)} columns; {rows:,} rows "
        + (f"of {users:,} users were counted" if users else "were counted")
        + ", no value is kept",
    )


def _model(
    schema: Mapping[str, ColumnType], response: str, family: str, user_id: str, sparsity: int | None
) -> InitModel:
    """Return what the study fits: a mean, or which regression."""
    if family not in ("", *_FAMILIES):
        raise SpecError(f"--family must be {', '.join(_FAMILIES[:-1])} or {_FAMILIES[-1]}, got {family!r}")
    if family and not response:
        raise SpecError(f"--family {family} needs --response; name the column to explain")
    for option, column in (("--response", response), ("--user-id", user_id)):
        if column and column not in schema:
            raise SpecError(
                f"{option} must be one of the {len(schema)} columns of the file, got {column!r}; check it"
            )
        if column and schema[column] == "empty":
            raise SpecError(f"{option} must be a column with values, got {column!r}, which is empty")
    if response and response == user_id:
        raise SpecError(f"--user-id must be another column than --response, got {user_id!r} for both")
    kind = schema.get(response, "")
    if kind == "text" and family in ("linear", "poisson"):
        raise SpecError(f"--family {family} needs numbers, got {response!r}, a column of text; take logistic")
    chosen = (family or ("logistic" if kind == "text" else "linear")) if response else "mean"
    for option, asked, kinds in (
        ("--user-id", user_id, "user"),
        ("--sparsity", sparsity is not None, "sparse"),
    ):
        if asked and f"{kinds} {chosen}" not in MODELS:
            raise SpecError(f"{option} is for means and linear regression, got {chosen}; leave it out")
    if user_id and sparsity is not None:
        raise SpecError("--sparsity and --user-id do not go together; leave one out")
    if sparsity is not None and sparsity < 1:
        raise SpecError(f"--sparsity must be at least 1, got {sparsity}")
    if sparsity is not None:
        return MODELS[f"sparse {chosen}"].with_sparsity(sparsity)
    return MODELS[f"user {chosen}" if user_id else chosen]


def _study(
    name: str,
    data: Path,
    rows: int,
    used: Mapping[str, ColumnType],
    empty: list[str],
    response: str,
    model: InitModel,
    user_id: str,
    users: int | None,
) -> str:
    n, units = (rows, "rows") if users is None else (users, "users")
    sizes = sorted({max(FEWEST_ROWS - 1, share) for share in (n // 16, n // 4, n - n // 10)})
    problem = ['kind = "subsamples"', 'units = "public"']
    if response:
        problem.append(f"response = {_text(response)}")
    if model.family:
        problem.append(f'family = "{model.family}"')
    return STUDY.format(
        name=name,
        version=STUDY_FILE_VERSION,
        title=_text(f"{name}: what privacy costs"),
        question=_text(
            f"How far are private answers ({model.answer}) on m {units} from that of all {units} of "
            f"{data.name}?"
        ),
        task=model.task,
        size="subsample size m" if users is None else "users in a subsample, m",
        deleted="deleted_rows = [1, 5]\n" if model.task == "linear_regression" and users is None else "",
        path=_text(str(data)),
        rows=rows,
        unit=OF_ROWS if users is None else OF_USERS.format(user_id=_text(user_id), users=users),
        left_out="".join(f"# left out, since it is empty: {_text(column)}\n" for column in empty),
        columns="\n".join(_column(column, kind) for column, kind in used.items()),
        sizes=sizes,
        largest=sizes[-1],
        intercept=" and an intercept is fitted" if response else "",
        problem=f"{{ {', '.join(problem)} }}",
        estimators=model.estimators,
        guesses=_guesses(used, response),
    )


def _guesses(used: Mapping[str, ColumnType], response: str) -> str:
    """Return examples of guesses that name columns of the table, as comments."""
    numbers = [_text(column) for column, kind in used.items() if kind != "text" and column != response]
    texts = [_text(column) for column, kind in used.items() if kind == "text" and column != response]
    examples = ""
    if numbers:
        examples += GUESSED_NUMBERS.format(one=numbers[0])
    if texts:
        examples += GUESSED_TEXT.format(one=texts[0])
    if len(numbers) > 1:
        examples += GUESSED_PAIRS.format(one=numbers[0], other=numbers[1])
    if response and numbers:
        examples += GUESSED_RESPONSE.format(response=_text(response), one=numbers[0])
    return examples


def _column(name: str, kind: ColumnType) -> str:
    return f"[[data.columns]]\nname = {_text(name)}\n{TEXT if kind == 'text' else NUMBERS}{SOURCE}"


def _release(
    name: str, data: Path, used: Mapping[str, ColumnType], response: str, model: InitModel, user_id: str
) -> str:
    interval = get_estimator(model.release).has_interval and model.family != "multinomial"
    return RELEASE.format(
        name=name,
        file=data.name,
        estimator=model.release,
        asked="--epsilon 0.5 --delta 1e-7" + " --interval 0.95" * interval,
        at_centers=AT_CENTERS,
        x=f"[{', '.join(_text(column) for column in used if column != response)}]",
        but_response=f" but {_text(response)}" if response else "",
        y=f"y = {_text(response)}\n" if response else "",
        user_id=f"user_id = {_text(user_id)}\n" if user_id else "",
        in_units=f"    # public, in the units of {name}.toml" if model.bounds else "",
        bounds=model.bounds,
        params=model.params,
    )


def _text(value: str) -> str:
    """Write a text as TOML does."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
