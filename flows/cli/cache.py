"""``dpcost cache``: list, verify and prune stored results."""

import json
from typing import Annotated, Any

import typer

from data.store.folders import REPORTS, home
from flows.cli.options import AsJson, Out, help_without_command, print_rows
from flows.record.progress import say

cache_app = typer.Typer(help="What is stored, whether it is whole, and what is stale.")
cache_app.callback(invoke_without_command=True)(help_without_command)


@cache_app.command("list")
def cache_list(as_json: AsJson = False) -> None:
    """List the stored results; of blocks also what ran, where, and how long it took."""
    from flows.record.inventory import entries

    rows = [entry.to_dict() for entry in entries(home())]
    print_rows(rows, as_json, _row)
    if not rows and not as_json:
        typer.echo(f"nothing is stored in {home()}")


def _row(row: dict[str, Any]) -> str:
    made = f"  {row['what']}: {row['seconds']:.1f} s on {row['where']}" if row["what"] else ""
    return f"{row['state']:<9}{row['bytes'] / 1e3:>9.0f} kB  {row['name']}{made}"


@cache_app.command("verify")
def cache_verify(as_json: AsJson = False) -> None:
    """Check every stored result against its checksum; exit 1 if any is damaged."""
    from flows.record.inventory import entries

    found = entries(home())
    damaged = [entry.to_dict() for entry in found if entry.state == "damaged"]
    if as_json:
        typer.echo(json.dumps({"checked": len(found), "damaged": damaged}, indent=1))
    else:
        for row in damaged:
            typer.echo(f"damaged  {row['name']}")
        typer.echo(
            f"{len(found)} stored results, {len(damaged)} damaged; a damaged one is made again when needed"
        )
    if damaged:
        raise typer.Exit(1)


@cache_app.command("prune")
def cache_prune(
    everything: Annotated[bool, typer.Option("--all", help="Delete also what is up to date.")] = False,
    keep_size: Annotated[
        str | None, typer.Option(help="At most so much stays, e.g. 2GB; the least recently used goes first.")
    ] = None,
    out: Out = None,
    store: Annotated[
        bool,
        typer.Option("--store", help="At DPCOST_STORE, not here; with --keep-size the oldest goes first."),
    ] = False,
) -> None:
    """Delete results that are damaged, incomplete or stale."""
    from flows.record.inventory import n_bytes, prune, prune_shared
    from flows.record.journal import exclusive_run

    keep = None if keep_size is None else n_bytes(keep_size)
    if store:
        removed, freed = prune_shared(everything=everything, keep=keep)
    else:
        with exclusive_run(home(), say):
            removed, freed = prune(home(), out or REPORTS, everything=everything, keep=keep)
    typer.echo(f"removed {removed} stored results, {freed / 1e6:.1f} MB")
