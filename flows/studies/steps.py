"""The steps of a run of a study. Prefect is not imported here: see `flows.studies.stored`."""

import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import dpalgos
from data.datasets import get_dataset, load_registry
from data.errors import Unreachable
from data.store.folders import closed_folder, home
from data.store.references import DatasetRef
from data.store.shared import shared_address
from flows.record.inventory import clear_leftovers
from reports.charts.picture import NO_SPACE, can_draw
from tasks.cache import CacheKey, Record, at_hand, cache_key, located, records_folder, stored_record
from tasks.cells import Cell
from tasks.ingest import analyst_parquet, fetch, parquet
from tasks.problems.problem import Block, DatasetSource, modules_of
from tasks.report.manifest import earlier_contents, now
from tasks.report.write import render, share_report, write_index
from tasks.run.block import prepare, run_block
from tasks.run.collect import collect
from tasks.run.headline import audit, data_limit, exhibit, headline_block
from tasks.run_options import Profile, RunOptions
from tasks.study.panel import Panel
from tasks.study.spec import StudySpec
from tasks.turns import end_if_stopped

_DRAWING = threading.Lock()  # the pages of one study at a time, and the index over all
_BRINGING: dict[str, threading.Lock] = {}  # by dataset: several studies may read one

Tables = dict[str, DatasetRef]  # by dataset
Designs = dict[str, Record | None]  # by panel; None where data are simulated


class Job(NamedTuple):
    arguments: tuple[Any, ...]  # the first is the key of the result
    work: int = 0  # in any unit
    again: bool = False  # although the result may be stored
    only: str | None = None  # the one cell of a block to be run among its stored rows

    @property
    def key(self) -> CacheKey:
        key: CacheKey = self.arguments[0]
        return key


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run left: the pages, one sentence, the results table and the cells of the headline."""

    report: Path
    index: Path
    headline: str
    results: Path
    headline_cells: list[Cell]

    def shown(self) -> dict[str, str]:
        return {"report": str(self.report), "index": str(self.index), "headline": self.headline}


class Tasks(Protocol):
    """What runs the tasks of a run: Prefect, or nothing where all results are stored."""

    def say(self, sentence: str) -> None:
        """Say what the user should know."""

    def bring(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Run a task whose results are in the store, which is verified on every use."""

    def run(self, function: Callable[..., Record], *arguments: Any, again: bool) -> Record:
        """Run a task unless its result is stored; `again` runs it all the same."""

    def run_all(self, function: Callable[..., Record], jobs: Sequence[Job], study: str = "") -> list[Record]:
        """Run a task with several arguments, the longest first; show progress if a study is named."""


class StudySteps:
    """The steps of one run; its `spec` loses the panels whose data cannot be had."""

    def __init__(
        self, spec: StudySpec, reports: Path, options: RunOptions, tasks: Tasks, command: str = ""
    ) -> None:
        self.spec, self.replicates = spec, options.reps or spec.replicates[options.profile]
        self.options = options.model_copy(update={"reps": self.replicates})
        self.reports, self.folder = reports, reports / spec.name
        self._tasks = tasks
        self._context = {  # what the manifest says of the run
            "options": self.options,
            "command": command or shlex.join(self.options.command()),
            "started": now(),
        }

    def run(self) -> Outcome:
        if not can_draw():
            self._tasks.say(f"note: this report has no pictures, since {NO_SPACE} with dpcost report")
        self.clear_folders()
        tables = self.bring_tables()
        designs = self.prepare_panels(tables)
        blocks = self.divide_into_blocks(tables)
        parts = self.run_blocks(blocks, designs)
        limits = self.limit_by_deletion(blocks, designs)
        audits = self.audit_estimators(blocks)
        results = self.collect_results([*parts, *limits], audits)
        exhibits = self.write_exhibits(tables, designs, blocks, parts)
        with _DRAWING:
            report = self.render_report(tables, [results, *exhibits])
            index = write_index(self.reports)
            share_report(self.folder)
        return Outcome(
            report=Path(report["report"]),
            index=index,
            headline=report["headline"],
            results=located(results),
            headline_cells=self.spec.headline_cells(blocks),
        )

    def clear_folders(self) -> None:
        """Delete what killed runs left half written; open an analyst's report to its owner only."""
        clear_leftovers(home(), self.reports)
        if self.spec.analyst_table is None:
            return
        closed_folder(self.folder)
        if shared_address():
            self._tasks.say(
                "note: your table and results on it go to DPCOST_STORE, too: keep it as safe as the "
                "table; the report stays here"
            )

    def bring_tables(self) -> Tables:
        """Bring the datasets, and say which are not the real ones and which panels are left out."""
        tables, self.spec, not_run = bring_tables(
            self.spec, self.options.profile, self.options.offline, self._bring
        )
        self._context["not_run"] = not_run
        for sentence in not_run.values():
            self._tasks.say(f"note: {sentence}")
        for name, table in tables.items():
            if self.spec.analyst_table and name == self.spec.name:
                self._tell_of_own(table, Path(self.spec.analyst_table.path).name)
            elif table.data_source != "real":
                self._tasks.say(f"note: {name} is a {table.data_source}, since {'; '.join(table.reasons)}")
        return tables

    def prepare_panels(self, tables: Tables) -> Designs:
        panels = self.spec.panels_at(self.options.profile)
        return {panel.name: self._design(tables, panel) for panel in panels}

    def divide_into_blocks(self, tables: Tables) -> list[Block]:
        return self.spec.blocks(
            self.options.profile,
            replicates=self.replicates,
            seed=self.options.seed,
            data_sources={dataset: table.data_source for dataset, table in tables.items()},
        )

    def run_blocks(self, blocks: list[Block], designs: Designs) -> list[Record]:
        """Run the blocks in parallel, the longest first; return their records in the order of the blocks."""
        jobs = [self._job(block, designs[block.replicates.panel]) for block in blocks]
        before = [_written_at(job.key) for job in jobs]
        parts = self._tasks.run_all(run_block, jobs, self.spec.name)
        new = sum(_written_at(job.key) != earlier for job, earlier in zip(jobs, before, strict=True))
        self._context["blocks"] = {"computed": new, "stored": len(parts) - new}
        return parts

    def limit_by_deletion(self, blocks: list[Block], designs: Designs) -> list[Record]:
        """Compute how far each dataset moves an answer by itself, on one panel that reads it."""
        deleted, records = list(self.spec.deleted_rows), []
        chosen: dict[str, Block] = {}
        for block in sorted(blocks, key=lambda block: block.replicates.panel != self.spec.headline.panel):
            chosen.setdefault(block.problem.source, block)
        for block in chosen.values() if deleted else ():
            design = designs[block.replicates.panel]
            assert design is not None  # checked when the file was read
            code = [data_limit.__module__, *modules_of(block.problem)]
            inputs = [self.spec.name, block.replicates.panel, block.data_source, design["sha256"], deleted]
            key = cache_key("limit", code, *inputs)
            records.append(self._run(data_limit, key, block, design, _rows_of(key), deleted))
        return records

    def audit_estimators(self, blocks: list[Block]) -> list[Record]:
        """Try to break the private estimators at the headline's setting, in parallel."""
        n_trials, seed = self.spec.audit_trials.get(self.options.profile), self.options.seed
        if n_trials is None:
            return []
        n_features = self.spec.head_panel.problem.sizes(self.spec.headline.n)["d"]
        jobs = []
        for cell in self.spec.headline_cells(blocks):
            code = [audit.__module__, dpalgos.get_estimator(cell.estimator).function.__module__]
            key = cache_key("audit", code, asdict(cell), n_features, n_trials, seed)
            arguments = (key, cell, n_features, n_trials, seed, f"cache/audits/{key}.json")
            jobs.append(Job(arguments, again=self._is_run_again(audit)))
        return self._tasks.run_all(audit, jobs)

    def collect_results(self, parts: list[Record], audits: list[Record]) -> Record:
        contents = [[part["sha256"], part.get("attached")] for part in (*parts, *audits)]
        key = cache_key("results", [collect.__module__], contents, str(self.folder))
        return self._run(collect, key, parts, audits, str(self.folder))

    def write_exhibits(
        self, tables: Tables, designs: Designs, blocks: list[Block], parts: list[Record]
    ) -> list[Record]:
        """Write what the report shows next to the results of the headline's panel."""
        head = self.spec.head_panel
        shown = [(b, part) for b, part in zip(blocks, parts, strict=True) if b.replicates.panel == head.name]
        block = headline_block([b for b, _ in shown], self.spec.headline.n, self.spec.headline_cells(blocks))
        table, design = tables.get(head.problem.source), designs[head.name]
        key = cache_key(
            "exhibits",
            [exhibit.__module__, *modules_of(head.problem, {cell.estimator for cell in block.cells})],
            block.described(),
            table.sha256 if table else None,
            design["sha256"] if design else None,
            [part["sha256"] for _, part in shown],
            str(self.folder),
            of_page=True,
        )
        return [self._run(exhibit, key, block, table, design, [part for _, part in shown], str(self.folder))]

    def render_report(self, tables: Tables, results: list[Record]) -> Record:
        settings = list(self.options.recorded().values())
        data = [[table.sha256, table.reasons] for table in tables.values()]  # why, for a stand-in
        not_run = self._context.get("not_run", {})
        problems = [module for panel in self.spec.panels for module in modules_of(panel.problem)]
        records = [{key: value for key, value in record.items() if key != "code"} for record in results]
        code, plain = [render.__module__, *problems], self.spec.model_dump(mode="json")
        how = [] if can_draw() else ["without pictures"]
        key = cache_key("page", code, plain, data, not_run, records, settings, *how, of_page=True)
        return self._run(render, key, self.spec, list(tables.values()), results[0], self._context)

    def _tell_of_own(self, table: DatasetRef, file: str) -> None:
        """Say which rows of an analyst's table are left out, and whether it changed since the last report."""
        content = table.source_sha256
        earlier = earlier_contents(self.folder, table.name, content)
        self._context["earlier_contents"] = earlier
        if earlier:
            last = earlier[-1]["source_sha256"]
            self._tasks.say(
                f"note: {file} changed since an earlier run: its sha256 began {last[:8]}, now {content[:8]}"
            )
        if self.spec.public_rows:
            self._tasks.say(f"note: {self.spec.public_rows.sentence}")
        for repair in table.repairs:
            self._tasks.say(f"note: {repair.count:,} of {table.rows_read:,} rows {repair.reason}")

    def _design(self, tables: Tables, panel: Panel) -> Record | None:
        problem = panel.problem
        if not isinstance(problem, DatasetSource):
            return None
        columns = [asdict(column) for column in problem.columns()]
        plain, table = problem.model_dump(mode="json"), tables[problem.source]
        code = [prepare.__module__, *modules_of(problem)]
        key = cache_key("design", code, table.sha256, plain, columns)
        return self._run(prepare, key, problem, table)

    def _bring(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        end_if_stopped()
        again = {} if function is analyst_parquet else {"again": self._is_run_again(function)}
        return self._tasks.bring(function, *arguments, **options, **again)

    def _run(self, function: Callable[..., Record], *arguments: Any) -> Record:
        end_if_stopped()
        return self._tasks.run(function, *arguments, again=self._is_run_again(function))

    def _is_run_again(self, function: Callable[..., Any]) -> bool:
        return self.options.refresh_task == function.__name__

    def _job(self, block: Block, design: Record | None) -> Job:
        cell = self.options.refresh_cell
        code = modules_of(block.problem, {cell.estimator for cell in block.cells})
        sha256 = design["sha256"] if design else None
        key = cache_key("block", [run_block.__module__, *code], block.described(), sha256)
        holds_cell = any(each.key == cell for each in block.cells)
        again = self._is_run_again(run_block) and (holds_cell or cell is None)
        # One cell alone can only be run into rows that are whole.
        whole = again and holds_cell and at_hand(stored_record(records_folder(home()) / key.name))
        return Job((key, block, design, _rows_of(key)), block.work, again, cell if whole else None)


def _rows_of(key: CacheKey) -> str:
    return f"cache/blocks/{key}.parquet"


def _written_at(key: CacheKey) -> int:
    """Return which file holds a block's rows now: when it was written, by a clock that may jump."""
    path = home() / _rows_of(key)
    return path.stat().st_mtime_ns if path.exists() else 0


def bring_tables(
    spec: StudySpec, profile: Profile, offline: bool, call: Callable[..., Any]
) -> tuple[Tables, StudySpec, dict[str, str]]:
    """Bring the datasets of a study; `call(task, ...)` runs a task, or just its function.

    Return the tables, the study without the panels for whose data nothing may stand in, and why each of
    these was left out.
    """
    tables: Tables = {}
    not_run: dict[str, str] = {}
    for dataset in spec.datasets_at(profile):
        if spec.analyst_table and dataset == spec.name:
            tables[dataset] = call(analyst_parquet, dataset, spec.analyst_table)
            spec.check_rows(tables[dataset])
            continue
        with _BRINGING.setdefault(dataset, threading.Lock()):
            raw = call(fetch, dataset, offline)
            panels = spec.panels_without_stand_in(dataset) if raw.origin == "stand-in" else ()
            if panels:
                why = f"{dataset} cannot be had here: {'; '.join(raw.reasons)}"
                not_run |= {panel: f"Panel “{panel}” did not run, since {why}." for panel in panels}
                spec = spec.without_panels(panels)
            else:
                tables[dataset] = call(parquet, raw, stand_in_rows=spec.stand_in_rows(dataset, profile))
    return tables, spec, not_run


def bring_datasets(
    names: Sequence[str], call: Callable[..., Any], again: bool, offline: bool, *, progress: bool = False
) -> Iterator[DatasetRef]:
    """Bring datasets by name, or all; with `again`, what is stored stays if nothing else is to be had."""

    def brought(name: str) -> Any:
        try:
            raw = call(fetch, name, offline, progress, again)
        except Unreachable:
            raw = call(fetch, name, offline, progress)
        return call(parquet, raw, again)

    return map(brought, [get_dataset(name).name for name in names or sorted(load_registry())])


def dropped_rows(table: DatasetRef) -> str:
    return "; ".join(f"{repair.count} rows: {repair.reason}" for repair in table.repairs)
