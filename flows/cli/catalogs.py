"""The commands that list what there is: ``dpcost studies``, ``dpcost estimators``, ``dpcost datasets``."""

import typer

from flows.cli.options import AsJson, print_rows


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (studies, estimators, datasets):
        app.command()(command)


def studies(as_json: AsJson = False) -> None:
    """List the studies."""
    from flows.studies.find_study import SCORECARD, readable_studies
    from tasks.scorecard.claims import load_scorecard

    scorecard = load_scorecard()
    rows = [
        {"name": s.name, "title": s.title, "datasets": s.datasets, "question": s.question.strip()}
        for s in readable_studies()
    ]
    rows.append(
        {"name": SCORECARD, "title": scorecard.title, "datasets": (), "question": scorecard.question.strip()}
    )
    print_rows(rows, as_json, lambda row: f"{row['name']:<24}{row['title']}")


def estimators(as_json: AsJson = False) -> None:
    """List the estimators."""
    import dpalgos

    rows = [entry.to_dict() for entry in dpalgos.catalog()]
    print_rows(rows, as_json, lambda row: f"{row['name']:<28}{row['privacy_model']:<9}{row['summary']}")


def datasets(as_json: AsJson = False) -> None:
    """List the datasets."""
    from data.registry import load_registry

    rows = [
        {
            "name": d.name,
            "title": d.title,
            "rows": d.n_rows,
            "privacy_unit": d.privacy_unit,
            "license": d.license,
            "citation": d.citation,
            "sources": [source.url for source in d.sources],
            "columns": [column.name for column in d.columns],
        }
        for d in load_registry().values()
    ]
    print_rows(rows, as_json, lambda row: f"{row['name']:<16}{row['rows']:>8,} rows  {row['title']}")
