"""Measure the figures of the documentation again, and list differences with their standard errors.

Run ``../.venv/bin/python -m generate.reproduce NAME…`` in the folder ``docs``; all figures by default.
``--list`` shows their duration. ``--update`` stores the new measurements, and needs committed code.
"""

import argparse
import difflib
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import dpalgos
from data.results.comparison import describe_differences
from data.store.folders import PROJECT_ROOT, REPORTS
from flows.progress import say
from generate import measured as stored
from generate.measured import Figure
from tasks.errors import SpecError
from tasks.report.manifest import commit

DPCOST = str(Path(sys.executable).with_name("dpcost"))


def reproduce(names: Sequence[str], *, only_list: bool, update: bool) -> None:
    """Measure named figures again (default: all) or list them; store them with ``update``."""
    figures = {figure.name: figure for figure in stored.figures()}
    known = [*sorted(set(stored.evidence().study)), *figures]
    if unknown := [name for name in names if name not in known]:
        raise SpecError(f"NAME must be one of {', '.join(known)}, got {unknown[0]!r}")
    chosen, missed = [name for name in known if not names or name in names], list[str]()
    if only_list:
        _list(chosen, figures)
        return
    if update and not re.fullmatch(r"[0-9a-f]{40}", commit()):
        raise SpecError(f"--update needs a checkout without changes, got {commit()}; commit them first")
    for name in chosen:
        figure = figures.get(name)
        if study := figure.study if figure else name:
            subprocess.run([DPCOST, "run", study], check=True)
        if figure is None:
            _compare_study(name, update=update)
        elif not _compare_figure(figure, update=update):
            missed.append(name)
    if missed:
        raise SpecError(
            f"{', '.join(missed)} cannot be measured: the command ended with an error, shown above"
        )


def _list(names: Sequence[str], figures: dict[str, Figure]) -> None:
    of_name = {command.rpartition(" ")[2]: f"measured {why}" for _, why, command in stored.stale()}
    for name in names:
        figure = figures.get(name)
        place = figure.place if figure else "errors of the study in evidence.csv"
        time = f", {figure.minutes:g} minutes on two cores" if figure else ""
        print(f"{name}: {place}{time}{'; ' + of_name[name] if name in of_name else ''}")


def _compare_study(study: str, *, update: bool) -> None:
    """Print how errors of a study that ran differ from those of the documentation."""
    evidence, again = stored.evidence(), stored.measured(REPORTS, study)
    changes = stored.differences(evidence[evidence.study == study], again)
    print(f"{study}: {describe_differences(changes)}")
    if update:
        rows = stored.with_measured(evidence, again)
        rows.to_csv(stored.EVIDENCE, index=False, float_format=stored.STORED)


def _compare_figure(figure: Figure, *, update: bool) -> bool:
    """Run a figure's command and print differing lines; return whether the command succeeded."""
    out = REPORTS / "reproduced" / Path(figure.file).name if figure.file else REPORTS / "reproduced"
    out.parent.mkdir(parents=True, exist_ok=True)
    here = {"python": sys.executable, "dpcost": DPCOST}
    words = [here.get(word, word) for word in shlex.split(figure.command)]
    say(f"{figure.name}: {figure.command}")
    process = subprocess.run([word.format(out=out) for word in words], cwd=PROJECT_ROOT, check=False)
    if process.returncode:
        return False
    print(f"{figure.name}: {_difference(figure, out)}")
    if update:
        if figure.file:
            (stored.DOCS / figure.file).parent.mkdir(exist_ok=True)
            (stored.DOCS / figure.file).write_bytes(out.read_bytes())
        text = stored.MEASURED.read_text(encoding="utf-8")
        for key, value in (("version", dpalgos.__version__), ("measured", stored.now())):
            part = re.compile(rf"(\[{re.escape(figure.name)}\]\n(?:[^\[\n][^\n]*\n)*?{key} = )\"[^\"]*\"")
            text = part.sub(rf'\g<1>"{value}"', text)
        stored.MEASURED.write_text(text, encoding="utf-8")
    return True


def _difference(figure: Figure, out: Path) -> str:
    if not figure.file:
        return f"compare the printed result with {figure.place}"
    stored_bytes, again = (
        path.read_bytes() if path.exists() else b"" for path in (stored.DOCS / figure.file, out)
    )
    if stored_bytes == again:
        return "the same"
    if out.suffix == ".png":
        return f"another picture: compare {out}"
    lines = difflib.ndiff(stored_bytes.decode().splitlines(), again.decode().splitlines())
    return "\n".join(["differs", *(line for line in lines if line[:1] in "+-")])


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=stored.AGAIN, description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args(words)
    try:
        reproduce(options.names, only_list=options.list, update=options.update)
    except SpecError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
