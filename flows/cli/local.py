"""``dpcost local``: devices and server of a locally private estimator, as separate commands."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from data.store.folders import atomic_write, check_output
from flows.cli.options import AsJson

if TYPE_CHECKING:
    from tasks.local_protocol import PublicMessage

local_app = typer.Typer(
    help="Local privacy: devices report, and a server that never sees a row estimates.",
    no_args_is_help=True,
)

Config = Annotated[Path | None, typer.Option(help="TOML: [protocol], [columns], [bounds], [params].")]
State = Annotated[Path | None, typer.Option(help="What dpcost local round handed out; for later rounds.")]


@local_app.command("report")
def local_report(
    data: Annotated[Path, typer.Option(help="CSV or Parquet file; a row is a person with a device.")],
    out: Annotated[Path, typer.Option(help="Arrow file of reports.")],
    config: Config = None,
    state: State = None,
    max_epsilon: Annotated[
        float | None, typer.Option(help="The most that a report may cost, whatever the state asks.")
    ] = None,
) -> None:
    """Write one private report for each row; with several rounds, for each person of the open round.

    A state is answered only within --config (the protocol that the devices agreed to) or --max-epsilon. Every
    call answers anew: sending reports of the same rows twice costs their people twice.
    """
    from data.formats.local_reports import ARROW
    from tasks.local_protocol import check_allowed, read_message, report

    check_output(out, (data, config, state), ARROW)
    message = read_message(state) if state else _public(config, None)
    check_allowed(message, config, max_epsilon)
    n = report(message, data, out)
    typer.echo(f"{n:,} reports: {out}")


@local_app.command("round")
def local_round(
    out: Annotated[Path, typer.Option(help="JSON file of the next public state.")],
    reports: Annotated[list[Path] | None, typer.Argument(help="Reports of the group just asked.")] = None,
    config: Config = None,
    state: State = None,
) -> None:
    """Write the public state that the next group answers; without reports, that of the first group."""
    from tasks.local_protocol import STATE, aggregate

    check_output(out, (config, state, *(reports or ())), STATE)
    if reports:
        told = _public(config, state) if config or state else None
        message = aggregate(reports, told).message
    else:
        message = _public(config, state)
    atomic_write(out, message.to_bytes())
    typer.echo(f"public state before round {message.round}: {out}")


@local_app.command("aggregate")
def local_aggregate(
    reports: Annotated[list[Path], typer.Argument(help="Reports of one group.")],
    config: Config = None,
    state: State = None,
    as_json: AsJson = False,
) -> None:
    """Print the server's estimate from reports alone, its standard errors and what each report cost."""
    from tasks.local_protocol import aggregate

    found = aggregate(reports, _public(config, state) if config or state else None)
    columns, after = found.message.settings["x"], found.message.state
    if as_json:
        document = {
            "estimate": dict(zip(columns, after["coef"], strict=True)),
            "standard_error": dict(zip(columns, after["standard_error"], strict=True)),
            "certified_epsilon": found.epsilon,
            "delta": found.delta,
            "n_reports": found.n_reports,
            "n_shortened": found.n_shortened,
            "round": after["n_rounds"],
            "n_rounds": found.n_rounds,
            "notes": after["notes"],
        }
        typer.echo(json.dumps(document, indent=1))
        return
    for column, coef, error in zip(columns, after["coef"], after["standard_error"], strict=True):
        typer.echo(f"{column:<24}{coef:>14.6g}  ± {error:.3g}")
    typer.echo(
        f"\n{found.n_reports:,} reports, each ({found.epsilon:g}, {found.delta:g})-differentially private "
        "on its own; ± is one standard error of their noise"
    )
    if found.n_shortened:
        typer.echo(f"{found.n_shortened:,} were longer than an honest report can be, and were shortened")
    if "conditions" in after["notes"]:
        typer.echo(f"careful: {after['notes']['conditions']}")
    if after["n_rounds"] < found.n_rounds:
        typer.echo(f"round {after['n_rounds']} of {found.n_rounds}; go on with: dpcost local round")


def _public(config: Path | None, state: Path | None) -> "PublicMessage":
    from tasks.faults import SpecError
    from tasks.local_protocol import first_message, read_message

    if (config is None) == (state is None):
        raise SpecError(
            "--config (first round) or --state (later ones) must be given, one of the two, got "
            + ("none" if config is None else "both")
        )
    if config is not None:
        return first_message(config)
    assert state is not None
    return read_message(state)
