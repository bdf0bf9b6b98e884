"""Client and server simulation of local differential privacy: devices write reports, a server reads them.

What is public travels with the reports as one message: the protocol's settings and the state that the server
has handed out. Every report carries the message's digest, by which the server recognizes reports of another
configuration, another ε or an earlier round.

Over several rounds each person answers once. A keyed hash of the person's id (``columns.id``) decides in
which round, so that the file may grow or be re-sorted in between. Without an id the position in the file
decides; the state then carries the number of rows and a fingerprint, and a file that differs is refused. The
fingerprint is keyed with a secret that stays in the devices' home: a plain hash would let the server test
guesses of people's values.
"""

import hmac
import inspect
import json
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from data.errors import DataError
from data.formats.local_reports import ReportTable, message_digest, read_reports, write_reports
from data.store.folders import atomic_write, home, read_small
from data.tables.declared import UserIds
from data.tables.reading import load_numbers
from dpalgos import InputError, get_estimator
from dpalgos.accounting.events import Relation
from dpalgos.api import build_params
from dpalgos.local.rounds import (
    LocalAlgorithm,
    PublicState,
    device_reports,
    first_state,
    mean_reports,
    public_groups,
    report_epsilon,
    round_of_person,
)
from dpalgos.typing import FloatArray, IntArray
from tasks.faults import SpecError
from tasks.release.config import public_keywords, read_config
from tasks.strict import Strict

STATE = b'{\n "settings"'  # what a public state begins with
_INSTEAD = "[protocol] says what a report costs, and nothing else does"
_LARGEST_MESSAGE = 100_000_000  # bytes; public rows are part of it


class _Protocol(Strict):
    estimator: str
    epsilon: float
    delta: float
    people: int | None = Field(default=None, gt=0)
    public_rows: Path | None = None


class _Columns(Strict):
    x: tuple[str, ...] = Field(min_length=1)
    y: str
    id: str | None = None


class ProtocolConfig(Strict):
    """A protocol's TOML file: estimator and budget, columns, public bounds, settings."""

    protocol: _Protocol
    columns: _Columns
    bounds: dict[str, Any] = Field(default_factory=dict)
    params: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PublicMessage:
    """What everyone knows: the settings, and the state after the last round, both as plain data."""

    settings: dict[str, Any]  # estimator, budget, columns and keywords
    # Rounds that there have been, coefficients, standard errors, notes; and, where people have no ids, the
    # fingerprints of the files that have answered, with their numbers of rows.
    state: dict[str, Any]

    def to_bytes(self) -> bytes:
        """Return the message as it travels, always the same bytes for the same message."""
        whole = {"settings": self.settings, "state": self.state}
        return json.dumps(whole, sort_keys=True, indent=1, allow_nan=False).encode()

    @classmethod
    def from_bytes(cls, content: bytes, where: object) -> "PublicMessage":
        try:
            whole = json.loads(content)
            message = cls(settings=dict(whole["settings"]), state=dict(whole["state"]))
            message.public_state()
            message.algorithm()
            _ = message.files
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            raise SpecError(f"{where} holds no public state; write it with: dpcost local round") from None
        return message

    @property
    def round(self) -> int:
        """Number of the round that is open, from 1."""
        return int(self.state["n_rounds"]) + 1

    @property
    def files(self) -> dict[str, int]:
        """Fingerprints of the files that answered the first round, with their numbers of rows."""
        return dict(self.state.get("files", {}))

    def algorithm(self) -> LocalAlgorithm:
        asked = self.settings
        estimator = get_estimator(asked["estimator"])
        budget = {"epsilon": asked["epsilon"], "delta": asked["delta"], "calibration": "tight"}
        params = build_params(estimator, {**asked["keywords"], **budget})
        module: Any = inspect.getmodule(estimator.function)  # each local estimator has its own algorithm
        made: LocalAlgorithm = module.algorithm(params, len(asked["x"]), asked["people"] or 1)
        return made

    def public_state(self) -> PublicState:
        coef, error = (np.array(self.state[k], dtype=float)[:, None] for k in ("coef", "standard_error"))
        if len(coef) != len(self.settings["x"]) or coef.shape != error.shape:
            raise ValueError("the state is of other columns")
        return PublicState(
            n_rounds=int(self.state["n_rounds"]), coef=coef, standard_error=error, notes=self.state["notes"]
        )


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """What a server makes of one group's reports."""

    message: PublicMessage  # what is public from now on, the estimate in it
    n_rounds: int  # of the protocol
    n_reports: int
    n_shortened: int  # of the reports, those that were longer than an honest one
    epsilon: float  # what each report is certified for, at delta
    delta: float


def first_message(config: Path) -> PublicMessage:
    """Return what is public before anyone has reported."""
    asked = read_config(config, ProtocolConfig)
    protocol = asked.protocol
    estimator = get_estimator(protocol.estimator)
    if estimator.relation is not Relation.LOCAL:
        raise SpecError(f"protocol.estimator must be a locally private one, got {protocol.estimator!r}")
    keywords = public_keywords(asked.bounds, asked.params, protocol.estimator, _INSTEAD)
    if "response_moment" in keywords and protocol.people is None:
        raise SpecError("protocol.people must be given with response_moment, got none; add their number")
    if protocol.public_rows is not None:
        rows = load_numbers(config.parent / protocol.public_rows, asked.columns.x)
        keywords["public_X"] = rows.to_numpy().tolist()
    settings = {
        **protocol.model_dump(exclude={"public_rows"}),
        **asked.columns.model_dump(mode="json"),
        "keywords": {k: list(v) if isinstance(v, tuple) else v for k, v in keywords.items()},
    }
    message = PublicMessage(settings=settings, state=_plain(first_state(len(asked.columns.x))))
    message.algorithm()
    return message


def read_message(path: Path) -> PublicMessage:
    try:
        return PublicMessage.from_bytes(read_small(path, _LARGEST_MESSAGE), path)
    except OSError as error:
        raise SpecError(f"cannot read the state {path}: {error.strerror}") from None


def check_allowed(message: PublicMessage, config: Path | None, max_epsilon: float | None) -> None:
    """Check that a server asks no more of a device than its own configuration or cap allows."""
    if config is None and max_epsilon is None:
        raise SpecError(
            "--config or --max-epsilon must be given with --state, got none: a server may ask for too much"
        )
    if config is not None:
        declared = json.loads(first_message(config).to_bytes())["settings"]
        asked = json.loads(message.to_bytes())["settings"]
        different = [name for name in {**declared, **asked} if declared.get(name) != asked.get(name)]
        if different:
            raise SpecError(
                f"the state must be one of the protocol of {config}, but differs in "
                f"{', '.join(different)}; ask the server for the right one"
            )
    epsilon = report_epsilon(message.algorithm(), message.public_state(), 0.0)
    if max_epsilon is not None and not epsilon <= max_epsilon:
        raise SpecError(
            f"--max-epsilon must be at least {epsilon:g}, which a report of this round costs, got "
            f"{max_epsilon:g}; raise it only if that is what you agreed to"
        )


def report(message: PublicMessage, data: Path, out: Path) -> int:
    """Play the devices: write a private report for each person of the open round; return how many."""
    algorithm, state = message.algorithm(), message.public_state()
    if message.round > algorithm.n_rounds:
        raise SpecError(f"all {algorithm.n_rounds} rounds are over; nobody is asked any more")
    settings, id_column = message.settings, message.settings.get("id")
    ids = UserIds(data, id_column) if id_column else None
    rows = load_numbers(data, [*settings["x"], settings["y"]], watch=ids.add if ids else None).to_numpy()
    files: dict[str, int] = {}
    if ids:
        asked = _people_of_round(ids, data, algorithm.n_rounds, state.n_rounds)
    else:
        asked = public_groups(len(rows), algorithm.n_rounds)[state.n_rounds]
        if algorithm.n_rounds > 1:
            files = _same_file(message, data, rows)
    reports = device_reports(algorithm, state, rows[asked, :-1], rows[asked, -1])
    content = message.to_bytes()
    write_reports(
        out,
        ReportTable(
            message=content,
            ids=[secrets.token_bytes(16) for _ in reports],
            states=[message_digest(content)] * len(reports),
            reports=np.asarray(reports, dtype=np.float64),
            files=files,
        ),
    )
    return len(reports)


def _people_of_round(ids: UserIds, data: Path, n_rounds: int, number: int) -> IntArray:
    """Return the rows of the people that are asked in a round (from 0), by their ids."""
    names = ids.names()
    if len(set(names)) < len(names):
        raise DataError(f"{data}: ids must differ, since a row is a person; keep one row per person")
    rows = np.flatnonzero([round_of_person(name, n_rounds) == number for name in names])
    if not len(rows):
        raise DataError(f"{data} has nobody of the group of round {number + 1}; leave this file out of it")
    return rows


def _same_file(message: PublicMessage, data: Path, rows: FloatArray) -> dict[str, int]:
    """Return a file's fingerprint and number of rows; refuse one that did not answer the first round."""
    key = home() / "local.key"
    if not key.exists():
        atomic_write(key, secrets.token_bytes(32), private=True)
    found = {hmac.digest(key.read_bytes(), np.ascontiguousarray(rows).tobytes(), "sha256").hex(): len(rows)}
    if message.round > 1 and not found.items() <= message.files.items():
        raise DataError(
            f"{data} is not as it was in round 1 (or another DPCOST_HOME wrote its reports), so that people "
            "would be asked twice; use the same file, or name each person's id in columns.id from the start"
        )
    return found


def aggregate(paths: Sequence[Path], message: PublicMessage | None = None) -> Aggregate:
    """Play the server: check that reports of one group answer the (first file's) message, and estimate."""
    tables = [read_reports(path) for path in paths]
    if not tables:
        raise SpecError("reports must be named, got none; pass the files that dpcost local report wrote")
    message = message or PublicMessage.from_bytes(tables[0].message, paths[0])
    expected = message_digest(message.to_bytes())
    for path, table in zip(paths, tables, strict=True):
        _check_answers(path, table, message, expected)
    seen = Counter(report_id for table in tables for report_id in table.ids)
    n_twice = sum(count > 1 for count in seen.values())
    if n_twice:
        raise DataError(f"{n_twice} reports came twice; every device sends one, so leave the copies out")
    algorithm, state = message.algorithm(), message.public_state()
    sizes = {table.reports.shape[1] for table in tables}
    if len(sizes) > 1:
        raise InputError(f"reports must have one size, got {', '.join(map(str, sorted(sizes)))} numbers")
    means = mean_reports(algorithm, state, np.concatenate([table.reports for table in tables]))
    following = _plain(algorithm.server(state, means.parts, means.n_reports))
    files = dict(message.files)
    if message.round == 1:
        for table in tables:
            files.update(table.files)
    delta = float(message.settings["delta"])
    return Aggregate(
        message=PublicMessage(settings=message.settings, state={**following, "files": files}),
        n_rounds=algorithm.n_rounds,
        n_reports=means.n_reports,
        n_shortened=means.n_shortened,
        epsilon=report_epsilon(algorithm, state, delta),
        delta=delta,
    )


def _check_answers(path: Path, table: ReportTable, message: PublicMessage, expected: bytes) -> None:
    """Refuse a file with reports that answer another message, saying in what it differs."""
    foreign = sum(state != expected for state in table.states)
    if not foreign:
        return
    n, theirs = len(table.states), PublicMessage.from_bytes(table.message, path)
    if any(state != message_digest(table.message) for state in table.states):
        reason = "answer another public state than the file says"
    elif theirs.settings["epsilon"] != message.settings["epsilon"]:
        reason = f"are for epsilon = {theirs.settings['epsilon']:g}, not {message.settings['epsilon']:g}"
    elif theirs.settings != message.settings:
        reason = "are of another configuration"
    elif theirs.round != message.round:
        reason = f"are of round {theirs.round}, and this is round {message.round}"
    else:
        reason = "answer another public state of this round"
    raise DataError(f"{path}: {foreign} of {n} reports {reason}; leave them out")


def _plain(state: PublicState) -> dict[str, Any]:
    return {
        "n_rounds": state.n_rounds,
        "coef": state.coef[:, 0].tolist(),
        "standard_error": state.standard_error[:, 0].tolist(),
        "notes": {k: v if isinstance(v, str) else np.asarray(v).tolist() for k, v in state.notes.items()},
    }
