"""Measure again what the documentation shows, and list differences with their errors."""

import difflib
import math
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import typer

from data.store.folders import PROJECT_ROOT, REPORTS
from flows.progress import say
from flows.studies import evidence as stored
from flows.studies.evidence import Figure
from tasks.errors import SpecError
from tasks.report.manifest import commit

_CLEAR = 2.0  # standard errors
_MOST_LINES = 10  # of what differs in one study

RunStudies = Callable[[Sequence[str]], object]  # at profile standard, to reports/out


def reproduce(names: Sequence[str], run: RunStudies, *, only_list: bool, update: bool) -> None:
    """Measure again what is named, all by default, or list it; store what was measured with ``update``."""
    if not stored.EVIDENCE.exists():
        raise SpecError(f"reproduce must run in a clone of the project: {stored.EVIDENCE} is not there")
    shown, figures = stored.evidence(), {figure.name: figure for figure in stored.figures()}
    known = [*sorted(set(shown.study)), *figures]
    if unknown := [name for name in names if name not in known]:
        raise SpecError(f"NAME must be one of {', '.join(known)}, got {unknown[0]!r}")
    chosen = [name for name in known if not names or name in names]
    if only_list:
        _list(chosen, figures)
        return
    if update and not re.fullmatch(r"[0-9a-f]{40}", commit()):
        raise SpecError(f"--update must find all changes committed, got {commit()}; commit them first")
    studies = [name for name in chosen if name not in figures]
    own = [figures[name] for name in chosen if name in figures]
    if needed := [*studies, *(figure.study for figure in own if figure.study)]:
        run(needed)
    if studies:
        _studies(studies, shown, update=update)
    if missed := [figure.name for figure in own if not _measured(figure, update=update)]:
        raise SpecError(
            f"{', '.join(missed)} cannot be measured: the command ended with an error, shown above"
        )


def _list(names: Sequence[str], figures: dict[str, Figure]) -> None:
    of_name = {command.rpartition(" ")[2] for _, command in stored.stale()}
    for name in names:
        figure = figures.get(name)
        what = figure.shown if figure else "errors of the study in evidence.csv"
        time = f", {figure.minutes:g} minutes on two cores" if figure else ""
        typer.echo(f"{name}: {what}{time}{'; measured with other code' if name in of_name else ''}")


def _studies(studies: Sequence[str], shown: pd.DataFrame, *, update: bool) -> None:
    """Compare errors of studies that were run with those of the documentation."""
    again = {study: stored.measured(REPORTS, study) for study in studies}
    for study in studies:
        found = stored.differences(shown[shown.study == study], again[study])
        same = int((found.z == 0).sum())
        typer.echo(f"{study}: {same} of {len(found)} errors are equal to six digits")
        clear = found[found.z > _CLEAR]
        for row in clear.head(_MOST_LINES).itertuples():
            typer.echo(f"  {_name_of(row)}: {_error(row, 'shown')} is shown, {_error(row, 'again')} measured")
        if len(clear) > _MOST_LINES:
            typer.echo(f"  and {len(clear) - _MOST_LINES} more")
        if len(found) > same and clear.empty:
            typer.echo(f"  the others differ by at most {found.z.max():.2g} standard errors")
    if update:
        rows = stored.with_measured(shown, pd.concat(again.values()))
        rows.to_csv(stored.EVIDENCE, index=False, float_format="%.6g")


def _name_of(row: Any) -> str:
    epsilon = "" if math.isnan(row.epsilon) else f" at ε = {row.epsilon:g}"
    return f"{row.panel}, {', '.join(filter(None, (row.estimator, row.form)))}{epsilon}"


def _error(row: Any, which: str) -> str:
    mean, error = getattr(row, f"mean_{which}"), getattr(row, f"se_{which}")
    return "nothing" if math.isnan(mean) else f"{mean:.4g} ± {error:.2g}"


def _measured(figure: Figure, *, update: bool) -> bool:
    """Run a figure's own command, and show which lines differ; return whether it could be measured."""
    out = REPORTS / "reproduced" / Path(figure.file).name if figure.file else REPORTS / "reproduced"
    out.parent.mkdir(parents=True, exist_ok=True)
    here = {"python": sys.executable, "dpcost": str(Path(sys.executable).with_name("dpcost"))}
    words = [here.get(word, word) for word in shlex.split(figure.command)]
    say(f"{figure.name}: {figure.command}")
    done = subprocess.run([word.format(out=out) for word in words], cwd=PROJECT_ROOT, check=False)
    if done.returncode:
        return False
    target = stored.DOCS / figure.file
    if figure.file and out.suffix == ".png":
        same = target.exists() and target.read_bytes() == out.read_bytes()
        typer.echo(f"{figure.name}: {'the same picture' if same else f'another picture: compare {out}'}")
    elif figure.file:
        lines = difflib.ndiff(_lines(target), _lines(out))
        changed = [line for line in lines if line[:1] in "+-"]
        typer.echo("\n".join([f"{figure.name}: {'differs' if changed else 'the same'}", *changed]))
    else:
        typer.echo(f"{figure.name}: compare what was printed with {figure.shown}")
    if update:
        if figure.file:
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(out.read_bytes())
        text = stored.MEASURED.read_text(encoding="utf-8")
        part = re.compile(rf"(\[{re.escape(figure.name)}\]\n(?:[^\[\n][^\n]*\n)*?code = )\"[^\"]*\"")
        stored.MEASURED.write_text(
            part.sub(rf'\g<1>"{stored.digest(figure.modules)}"', text), encoding="utf-8"
        )
    return True


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
