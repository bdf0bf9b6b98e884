"""``dpcost table`` and ``dpcost submodel``: tables of releases, and models nested in them."""

from pathlib import Path
from typing import Annotated

import typer

from data.store.output_files import check_outputs
from flows.cli import options


def submodel(
    record: Annotated[
        Path, options.argument("RECORD", "release.json of a release with intervals, or its folder.")
    ],
    formula: Annotated[str, options.option("FORMULA", "Nested model, e.g. 'cost ~ age + C(region)'.")],
    test: Annotated[
        list[str] | None,
        options.option("HYPOTHESIS", "Hypothesis, e.g. 'age - 10 * smoker = 0'. Repeatable."),
    ] = None,
) -> None:
    """Compute a model nested in a release, and tests, from its record; spends no ε."""
    from dpalgos.formula.nested import submodel_by_formula
    from tasks.report.coefficients import nested_record, read_record, released_model, text_of

    content = read_record(record)
    typer.echo(text_of([nested_record(content, formula)]), nl=False)
    model = submodel_by_formula(released_model(content), formula)
    for hypothesis in test or ():
        typer.echo(f"\n{model.t_test(hypothesis)}")


def table(
    records: Annotated[
        list[Path], options.argument("RECORD", "release.json of one or several releases, or their folders.")
    ],
    out: Annotated[
        Path | None,
        options.option("FILE", "Output file: .txt, .md, .csv, .tex, .html or .docx; default: the terminal."),
    ] = None,
    methods: Annotated[bool, options.flag("--methods", "Print a paragraph for a methods section.")] = False,
    models: Annotated[
        list[str] | None,
        options.option(
            "FORMULA...",
            "Models nested in the release, e.g. 'y ~ a' 'y ~ a + b'; one column each, spends no ε.",
        ),
    ] = None,
    by: Annotated[
        str,
        options.option("CATEGORY", "Category of the formulas; a row of means for each level, spends no ε."),
    ] = "",
    force: options.Force = False,
) -> None:
    """Write the coefficients of releases side by side as a table for publication."""
    from tasks.release.methods import methods_of
    from tasks.report.coefficients import (
        nested_record,
        read_record,
        record_by_group,
        table_format,
        text_of,
        write_table,
    )

    if out:
        table_format(out, "--out")
    # Words after --models "y ~ a" are models, too, as a shell's user writes them.
    existing = [each for each in records if not models or each.exists() or "~" not in str(each)]
    formulas = [*(models or ()), *(str(each) for each in records if each not in existing)]
    check_outputs([out], inputs=existing, force=force)
    contents = [read_record(record) for record in existing]
    if models:
        contents = [nested_record(each, formula) for each in contents for formula in formulas]
    if by:
        contents = [record_by_group(each, by) for each in contents]
    if methods:
        typer.echo(methods_of(contents))
        return
    if out:
        write_table(contents, out)
    typer.echo(str(out) if out else text_of(contents), nl=bool(out))
