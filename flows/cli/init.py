"""``dpcost init`` and ``check``: study and release files of an analyst's own table, completed by hand."""

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from data.errors import nearest_name
from data.store.folders import atomic_write
from data.store.output_files import check_outputs
from flows.cli.options import Force, argument, echo, option, parser_of, rendered, toml
from tasks import SpecError

if TYPE_CHECKING:
    from data.tables.schema import TableSchema
    from data.tables.sources import Source
    from dpalgos.formula.allowed import Reading
    from tasks.release.request import ReleaseConfig

FEWEST_ROWS = 10
LARGEST_EPSILON = 3.0  # of the study
UNUSABLE = ("empty", "nested")  # a column of lists or records is nested
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_THOUSANDS = "Thousands separator of a CSV file: . , ' or a blank. Default: none."
_SEPARATOR = "Separator of a CSV file: , ; | or tab. Default: the only one of its header."


# By the names of the branches in the templates: a description, the task, and the estimator for publication.
_MODELS = {
    "mean": ("means", "mean", "dp_mean"),
    "user mean": ("means in which each user counts once", "mean", "user_level_mean"),
    "linear": ("linear regression", "linear_regression", "preconditioned_regression"),
    "logistic": ("logistic regression", "glm", "preconditioned_glm"),
    "poisson": ("Poisson regression", "glm", "preconditioned_glm"),
    "multinomial": ("multinomial regression", "glm", "preconditioned_glm"),
    "hazard": ("hazard ratios", "glm", "preconditioned_glm"),
}


def init(
    name: Annotated[str, argument("NAME", "Study name; writes NAME.toml in this folder.")],
    data: Annotated[
        str, option("FILE", "CSV or Parquet file, folder of Parquet files, or address of a query.")
    ],
    response: Annotated[
        str, option("COLUMN", "Response of a regression; default: means of all columns.")
    ] = "",
    family: Annotated[
        Any,
        option(
            "[linear|logistic|poisson|multinomial]",
            "Regression family; default: by the type of the response.",
            parser=parser_of(Literal["linear", "logistic", "poisson", "multinomial"]),
        ),
    ] = None,
    user_id: Annotated[
        str, option("COLUMN", "Column of user ids; each user is protected with all their rows.")
    ] = "",
    weights: Annotated[
        str, option("COLUMN", "Column of weights of rows, which are private; default: none.")
    ] = "",
    formula: Annotated[
        str, option("FORMULA", 'Model, e.g. "cost ~ age + C(region) + age:smoker"; replaces --response.')
    ] = "",
    decimal: Annotated[
        Any, option("MARK", "Decimal mark of a CSV file: . or ,", parser=parser_of(Literal[".", ","]))
    ] = None,
    thousands: Annotated[
        Any, option("MARK", _THOUSANDS, parser=parser_of(Literal[".", ",", "'", " "]))
    ] = None,
    separator: Annotated[
        Any, option("MARK", _SEPARATOR, parser=parser_of(Literal[",", ";", "|", "tab"]))
    ] = None,
    force: Force = False,
) -> None:
    """Write a study file and a release file for your own table, from its column names and types."""
    from data.columns import Marks
    from data.tables.declared import count_users
    from data.tables.schema import table_schema
    from data.tables.sources import file_of, name_of, source_of
    from flows.confirm import confirm_typed_query
    from tasks.study.own_data import STUDY_FILE_VERSION

    files, source = _files(name), source_of(data)
    confirm_typed_query(source)
    check_outputs(files, inputs=[file_of(source)], force=force)
    marks = Marks(decimal or "", thousands or "", "\t" if separator == "tab" else separator or "")
    table, reading = table_schema(source, marks), None
    schema: Mapping[str, str] = table.types
    special = {user_id, weights}
    if formula:
        reading = _read_formula(formula, schema, response, special)
        response = reading.left[0] if len(reading.left) == 1 else ""
        used = {*reading.left, *reading.right, *special}
        schema = {column: kind for column, kind in schema.items() if column in used}
        schema |= dict.fromkeys(_categories_of(reading), "text")
    times = reading.left if reading and not response else ()
    model = "hazard" if times else _model(schema, response, family or "", user_id)
    if times and family:
        raise SpecError(f"--family must be left out with times to an event, got {family}")
    _check_weights(schema, weights, response, user_id, has_times=bool(times))
    users = count_users(source, user_id, marks) if user_id else None
    sizes = _size_values(source, table.n_rows, users)
    columns = _columns(source, schema, response, special, formula)
    values = {
        **asdict(marks),
        **_model_values(model, response, schema.get(response, ""), reading),
        **_column_values(columns, schema, table),
        **sizes,
        "name": name,
        "file": name_of(source),
        "path": str(data),
        "typed": shlex.quote(" ".join(str(data).split("\n"))),
        "version": STUDY_FILE_VERSION,
        "formula": toml(formula),
        "times": [toml(column) for column in times[:-1]],
        "event": toml(times[-1]) if times else "",
        "user_id": toml(user_id),
        "weights": toml(weights),
    }
    for file, template in zip(files, ("study", "release"), strict=True):
        atomic_write(file, f"{rendered(f'{template}.toml.jinja', **values)}\n".encode())
    needed = _needed_epsilon(users, len(columns)) if users and values["has_interval"] else 0.0
    whole = "" if family or schema.get(response) != "whole number" else response
    about = {"study": files[0], "n_columns": len(schema), "whole_numbers": whole, "needed": needed}
    echo(rendered("written.txt.jinja", **values, **about))


def _size_values(source: "Source", n_rows: int, users: int | None) -> dict[str, Any]:
    """Return what templates show of the numbers of rows or users, and the sizes of the study."""
    n, units = (n_rows, "rows") if users is None else (users, "users")
    if n < FEWEST_ROWS:
        raise SpecError(f"{source} has {n} {units}, a study needs at least {FEWEST_ROWS}; use a larger file")
    sizes = sorted({max(FEWEST_ROWS - 1, share) for share in (n // 16, n // 4, n - n // 10)})
    return {"n": n, "users": users, "units": units, "sizes": sizes, "largest_epsilon": LARGEST_EPSILON}


def _model_values(model: str, response: str, column_type: str, reading: "Reading | None") -> dict[str, Any]:
    """Return what templates show of the model and its response."""
    from dpalgos import get_estimator

    answer, task, estimator = _MODELS[model]
    is_column = reading is None or reading.response in reading.names.columns  # not its logarithm
    is_label = model == "logistic" and column_type in ("number", "whole number")
    return {
        "model": model,
        "answer": answer,
        "task": task,
        "release": estimator,
        "family": model if task == "glm" else "",
        "form": "clipped per user",
        "has_interval": get_estimator(estimator).has_interval and model != "multinomial",
        "may_be_skewed": model == "linear" and is_column,
        "response": toml(response),
        "label": toml(response) if is_label else "",
        "offset": reading.names.used(reading.offset) if reading else (),
    }


def _column_values(
    columns: Mapping[str, str], schema: Mapping[str, str], table: "TableSchema"
) -> dict[str, Any]:
    """Return what templates show of the columns."""
    from tasks.own_table.file_units import AT_CENTERS

    return {
        "unusable": [(toml(column), kind) for column, kind in schema.items() if kind in UNUSABLE],
        "columns": [(toml(column), kind) for column, kind in columns.items()],
        "has_text": "text" in columns.values(),
        "codes": [toml(column) for column in table.codes if column in columns],
        "dates": [toml(column) for column in table.dates if column in columns],
        "at_centers": AT_CENTERS,
    }


def _needed_epsilon(n: int, n_columns: int) -> float:
    """Return the ε that intervals of so few users need, or 0 if an ε of the study is enough."""
    from dpalgos.accounting.gaussian_dp import gaussian_epsilon
    from dpalgos.central.preconditioned.plan import RESOLVABLE

    least = gaussian_epsilon(n**-2.0, RESOLVABLE * math.sqrt(n_columns) / n)
    return least if least > LARGEST_EPSILON else 0.0


def _files(name: str) -> list[Path]:
    """Return the files to write; refuse an invalid study name."""
    from flows.studies.find_study import study_names
    from tasks.study.spec import SCORECARD

    if not _NAME.fullmatch(name) or name in (*study_names(), SCORECARD):
        raise SpecError(
            "NAME must be lower-case letters, digits, '_' and '-', begin with a letter, and not name a study "
            f"of the project, got {name!r}; pass e.g. my-study"
        )
    return [Path(f"{name}.toml"), Path(f"{name}-release.toml")]


def _columns(
    data: "Source", schema: Mapping[str, str], response: str, special: set[str], formula: str
) -> dict[str, str]:
    """Return response and covariates with their types: without special columns, and without an index."""
    from data.tables.reading import UNNAMED

    unused = special | ({UNNAMED} if response != UNNAMED and not formula else set())
    used = {column: kind for column, kind in schema.items() if kind not in UNUSABLE and column not in unused}
    if not used.keys() - {response}:
        raise SpecError(f"{data} has no column with values other than the response; add at least one")
    return used


def _read_formula(formula: str, schema: Mapping[str, str], response: str, special: set[str]) -> "Reading":
    """Read a formula; refuse one that is not of a study, or of another table."""
    from dpalgos import InputError
    from dpalgos.formula.allowed import read_formula

    if response:
        raise SpecError(f"--formula includes the response, got --response {response} too; leave it out")
    try:
        reading = read_formula(formula, [name for name in schema if name not in special])
    except InputError as error:
        raise SpecError(f"--{error}") from None
    if len(reading.left) != 1 and not reading.response.startswith("Surv("):
        raise SpecError(
            f"--formula must have one column, or Surv(time, event), on its left, got {formula!r}; correct it"
        )
    for name in (*reading.left, *reading.right):
        if name not in schema:
            raise SpecError(f"--formula has {name!r}, which is not a column of the file; correct it")
    return reading


def _categories_of(reading: "Reading") -> list[str]:
    """Return the columns that a formula calls categories, as in C(region)."""
    factors = {factor for term in reading.terms for factor in term}
    return [name for alias, name in reading.names.columns.items() if f"C({alias})" in factors]


def _check_weights(
    schema: Mapping[str, str], weights: str, response: str, user_id: str, *, has_times: bool
) -> None:
    """Refuse a column of weights that cannot be, or a model that does not take weights."""
    if weights and (schema.get(weights) not in ("number", "whole number") or weights in (response, user_id)):
        raise SpecError(
            f"--weights must be a column of numbers other than --response and --user-id, got {weights!r}; "
            "correct it"
        )
    if weights and not response and not has_times:
        raise SpecError(f"--weights are for regressions, got {weights!r}; pass --response, or leave them out")


def _model(schema: Mapping[str, str], response: str, family: str, user_id: str) -> str:
    """Return the name of the model that the options ask for."""
    if family and not response:
        raise SpecError(f"--family {family} needs --response; name the response column")
    for words, column in (("--response", response), ("--user-id", user_id)):
        if column and column not in schema:
            raise SpecError(
                f"{words} must be a column of the file, got {column!r}"
                f"{nearest_name(column, schema) or '; check the spelling and --separator'}"
            )
        if column and schema[column] in UNUSABLE:
            raise SpecError(
                f"{words} must be a column with values, got {column!r}, which is {schema[column]}"
            )
    if response and response == user_id:
        raise SpecError(f"--user-id must be another column than --response, got {user_id!r} for both")
    kind = schema.get(response, "")
    if kind == "text" and family in ("linear", "poisson"):
        raise SpecError(f"--family {family} needs numbers, got {response!r}, a column of text; pass logistic")
    chosen = (family or ("logistic" if kind == "text" else "linear")) if response else "mean"
    return "user mean" if user_id and chosen == "mean" else chosen


def check(
    file: Annotated[Path, argument("FILE", "Study file or release file.")],
) -> None:
    """List everything that is missing or wrong in a study or release file; reads no row."""
    from data.columns import MOST_FAULTS
    from data.tables.queries import Query
    from data.tables.sources import file_of
    from flows.confirm import confirm_query_of
    from tasks.own_table.analyst_table import require_clusters
    from tasks.study.own_data import read_toml

    content = read_toml(file)[1]
    if {"plan", "question"} <= set(content):
        raise SpecError(
            f"{file} must be a study or release file, got a plan; run: dpcost protocol check {file}"
        )
    is_release = "dataset" in content and "panels" not in content
    if is_release:
        from tasks.release.request import checked_request

        config, own, faults = checked_request(file)
        faults += _fault_of_unit(config) if config else []
        table = own.data if own else None
    elif "data" in content and not {"panels", "task", "estimators"} & set(content):
        from tasks.study.own_data import checked_data

        own, faults = checked_data(file)  # declarations for plans and releases
        table = own.data if own else None
    else:
        from flows.studies.find_study import name_fault
        from tasks.study.study_file import checked_study

        study, faults = checked_study(file)
        if study and (fault := name_fault(study, file)):
            faults.append(fault)
        table = study.analyst_table if study else None
    if faults:
        raise SpecError("\n  ".join([f"{file} is incomplete or invalid:", *faults]))
    if table:
        confirm_query_of(file, table.source)
        if isinstance(table.source, Query) or ((file_path := file_of(table.source)) and file_path.exists()):
            require_clusters(table.source, table)
    echo(f"{file}: complete and valid; no row was read")
    columns = table.columns if table else ()
    if codes := [
        f"{column.name}: {codes_outside}" for column in columns if (codes_outside := column.cut_codes())
    ]:
        more = [f"and of {len(codes) - MOST_FAULTS} more columns"] * (len(codes) > MOST_FAULTS)
        codes_by_column = "; ".join([*codes[:MOST_FAULTS], *more])
        echo(
            f"common codes for missing values are outside the bounds of {codes_by_column}; "
            'if the codebook lists them, write e.g. missing = ["99"] below the column'
        )


def _fault_of_unit(config: "ReleaseConfig") -> list[str]:
    """Return why a release does not protect the unit of its budget; nothing if none is open."""
    from dpalgos import InputError
    from tasks.release.spending import account_if_open, require_unit, unit_of

    if account := account_if_open(config.dataset.name):
        try:
            require_unit(account.budget, account.charges, unit_of(config.columns.user_id))
        except InputError as error:
            return [str(error)]
    return []
