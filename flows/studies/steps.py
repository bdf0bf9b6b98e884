"""The steps of a run of a study: the tasks of each, whose results are found in the cache or computed."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from prefect.futures import PrefectFuture, as_completed
from prefect.utilities.annotations import quote

import dpalgos
from data.store.folders import home, private_folder
from data.store.references import DatasetRef
from data.store.shared import shared_address
from flows.record.artifacts import ProgressArtifact
from flows.record.inventory import clear_leftovers
from flows.record.progress import progress, say
from tasks.bring.fetch import fetch
from tasks.bring.parquet import analyst_parquet, parquet
from tasks.cache.keys import CacheKey, cache_key
from tasks.cache.records import Record, at_hand, records_folder, stored_record
from tasks.limits import Profile
from tasks.problems.abilities import HasExhibits, ReadsTable
from tasks.problems.problem import modules_of
from tasks.report.manifest import earlier_contents, now
from tasks.report.render import render
from tasks.run.audit_cell import audit
from tasks.run.collect import collect
from tasks.run.deletion_limit import data_limit
from tasks.run.exhibit import exhibit, headline_block
from tasks.run.prepare import prepare
from tasks.run.run_block import run_block
from tasks.study.block import Block
from tasks.study.panel import Panel
from tasks.study.spec import StudySpec

Tables = dict[str, DatasetRef]  # by dataset
Designs = dict[str, Record | None]  # by panel; None where data are simulated


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run: the parameters of :func:`flows.study.run_study`."""

    study: str
    out: str | None
    profile: Profile
    replicates: int
    seed: int
    offline: bool
    refresh_task: str | None
    refresh_cell: str | None
    command: str

    def for_the_record(self) -> dict[str, Any]:
        """Return what the manifest says of them, and that the run starts now."""
        typed = f"dpcost run {self.study} --profile {self.profile} --reps {self.replicates}"
        named = {name: getattr(self, name) for name in ("study", "out", "profile", "replicates", "seed")}
        return {**named, "command": self.command or f"{typed} --seed {self.seed}", "started": now()}


class StudyTables(NamedTuple):
    """Tables by dataset, the study without the panels that need other data, and why each was left out."""

    tables: Tables
    spec: StudySpec
    not_run: dict[str, str]


def bring_tables(spec: StudySpec, profile: Profile, offline: bool, call: Callable[..., Any]) -> StudyTables:
    """Fetch and convert the datasets of a study; a panel is left out where nothing may stand in for its data.

    ``call(task, ...)`` runs a task, or its function alone.
    """
    tables: Tables = {}
    not_run: dict[str, str] = {}
    for dataset in spec.datasets_at(profile):
        if spec.analyst_table and dataset == spec.name:
            tables[dataset] = call(analyst_parquet, dataset, spec.analyst_table)
            spec.check_rows(tables[dataset])
            continue
        raw = call(fetch, dataset, offline)
        panels = spec.panels_without_stand_in(dataset) if raw.origin == "stand-in" else ()
        if panels:
            why = f"{dataset} cannot be had here: {'; '.join(raw.reasons)}"
            not_run |= {panel: f"Panel “{panel}” did not run, since {why}." for panel in panels}
            spec = spec.without_panels(panels)
        else:
            tables[dataset] = call(parquet, raw, stand_in_rows=spec.stand_in_rows(dataset, profile))
    return StudyTables(tables, spec, not_run)


class StudySteps:
    """The steps of one run; `reports` is the folder of all reports.

    Its `spec` loses the panels whose data cannot be had; `n_task_runs` counts the tasks that were started.
    """

    def __init__(self, spec: StudySpec, reports: Path, options: RunOptions) -> None:
        self.spec, self.options = spec, options
        self.reports, self.folder = reports, reports / spec.name
        self.n_task_runs = 0
        self._context = options.for_the_record()

    def clear_folders(self) -> None:
        """Delete what killed runs left half written; open an analyst's report to its owner only."""
        clear_leftovers(home(), self.reports)
        if self.spec.analyst_table is None:
            return
        private_folder(self.folder)
        if shared_address():
            say(
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
            say(f"note: {sentence}")
        for name, table in tables.items():
            if self.spec.analyst_table and name == self.spec.name:
                self._tell_of_own(table, Path(self.spec.analyst_table.path).name)
            elif table.data_source != "real":
                say(f"note: {name} is a {table.data_source}, since {'; '.join(table.reasons)}")
        return tables

    def prepare_panels(self, tables: Tables) -> Designs:
        """Prepare the data of each panel."""
        panels = self.spec.panels_at(self.options.profile)
        return {panel.name: self._design(tables, panel) for panel in panels}

    def divide_into_blocks(self, tables: Tables) -> list[Block]:
        """Return the blocks of cells to be run."""
        return self.spec.blocks(
            self.options.profile,
            replicates=self.options.replicates,
            seed=self.options.seed,
            data_sources={dataset: table.data_source for dataset, table in tables.items()},
        )

    def run_blocks(self, blocks: list[Block], designs: Designs) -> list[Record]:
        """Run the blocks in parallel, the longest first; return their records in the order of the blocks."""
        submitted: dict[PrefectFuture[Record], Block] = {}
        records: dict[str, Record] = {}
        on_server = ProgressArtifact(self.spec.name, len(blocks))
        with progress(len(blocks), sum(block.work for block in blocks)) as shown:
            for block in sorted(blocks, key=lambda block: -block.work):
                submitted[self._submit_block(block, designs)] = block
            for future in as_completed(list(submitted)):
                block, record = submitted[future], future.result()
                found = future.state.name == "Cached"
                if not at_hand(record):
                    found, record = False, self._submit_block(block, designs, again=True).result()
                records[block.key] = record
                shown.advance(block.work, found=found)
                on_server.advance()
        return [records[block.key] for block in blocks]

    def limit_by_deletion(self, blocks: list[Block], designs: Designs) -> list[Record]:
        """Compute how far each dataset moves an answer by itself, on one panel that reads it."""
        deleted, records = list(self.spec.deleted_rows), []
        chosen: dict[str, Block] = {}
        for block in sorted(blocks, key=lambda block: block.replicates.panel != self.spec.headline.panel):
            chosen.setdefault(block.problem.source, block)
        for block in chosen.values() if deleted else ():
            design = designs[block.replicates.panel]
            assert design is not None  # checked when the file was read
            code = [data_limit.fn.__module__, *modules_of(block.problem)]
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
        submitted = []
        for cell in self.spec.headline_cells(blocks):
            code = [audit.fn.__module__, dpalgos.get_estimator(cell.estimator).function.__module__]
            key = cache_key("audit", code, asdict(cell), n_features, n_trials, seed)
            arguments = (key, cell, n_features, n_trials, seed, f"cache/audits/{key}.json")
            submitted.append((arguments, self._started(audit).submit(*arguments)))
        return [self._whole(audit, arguments, future.result()) for arguments, future in submitted]

    def collect_results(self, parts: list[Record], audits: list[Record]) -> Record:
        """Collect the rows of all parts and the results of audits in one table."""
        contents = [[part["sha256"], part.get("beside")] for part in (*parts, *audits)]
        key = cache_key("results", [collect.fn.__module__], contents, str(self.folder))
        return self._run(collect, key, parts, audits, str(self.folder))

    def write_exhibits(
        self, tables: Tables, designs: Designs, blocks: list[Block], parts: list[Record]
    ) -> list[Record]:
        """Write what the report shows next to the results of the headline's panel, if there is anything."""
        head = self.spec.head_panel
        if not isinstance(head.problem, HasExhibits):
            return []
        shown = [(b, part) for b, part in zip(blocks, parts, strict=True) if b.replicates.panel == head.name]
        block = headline_block([b for b, _ in shown], self.spec.headline.n, self.spec.headline_cells(blocks))
        table, design = tables.get(head.problem.source), designs[head.name]
        key = cache_key(
            "exhibits",
            [exhibit.fn.__module__, *modules_of(head.problem, {cell.estimator for cell in block.cells})],
            block.described(),
            table.sha256 if table else None,
            design["sha256"] if design else None,
            [part["sha256"] for _, part in shown],
            str(self.folder),
            of_page=True,
        )
        return [self._run(exhibit, key, block, table, design, [part for _, part in shown], str(self.folder))]

    def render_report(self, tables: Tables, results: list[Record]) -> Record:
        """Write the report from the results table and the exhibits."""
        settings = [self._context[name] for name in ("profile", "replicates", "seed")]
        shas = [table.sha256 for table in tables.values()]
        problems = [module for panel in self.spec.panels for module in modules_of(panel.problem)]
        found = [{key: value for key, value in record.items() if key != "code"} for record in results]
        code, plain = [render.fn.__module__, *problems], self.spec.model_dump(mode="json")
        key = cache_key("page", code, plain, shas, found, settings, of_page=True)
        return self._run(render, key, self.spec, list(tables.values()), results[0], self._context)

    def _tell_of_own(self, table: DatasetRef, file: str) -> None:
        """Say which rows of an analyst's table are left out, and whether it changed since the last report."""
        content = table.source_sha256
        earlier = earlier_contents(self.folder, table.name, content)
        self._context["earlier_contents"] = earlier
        if earlier:
            last = earlier[-1]["source_sha256"]
            say(f"note: {file} changed since an earlier run: its sha256 began {last[:8]}, now {content[:8]}")
        for repair in table.repairs:
            say(f"note: {repair.count:,} of {table.rows_read:,} rows {repair.reason}")

    def _design(self, tables: Tables, panel: Panel) -> Record | None:
        problem = panel.problem
        if not isinstance(problem, ReadsTable):
            return None
        columns = [asdict(column) for column in problem.columns()]
        plain, table = problem.model_dump(mode="json"), tables[problem.source]
        code = [prepare.fn.__module__, *modules_of(problem)]
        key = cache_key("design", code, table.sha256, plain, columns)
        return self._run(prepare, key, problem, table)

    def _bring(self, task: Any, *arguments: Any, **options: Any) -> Any:
        """Run a task whose results are in the store, which is verified on every use."""
        self.n_task_runs += 1
        again = {} if task is analyst_parquet else {"again": self.options.refresh_task == task.name}
        return task(*arguments, **options, **again)

    def _run(self, task: Any, *arguments: Any) -> Record:
        """Run a task in the main thread."""
        return self._whole(task, arguments, self._started(task)(*arguments))

    def _whole(self, task: Any, arguments: tuple[Any, ...], record: Record) -> Record:
        """Return a record; one whose file is gone or damaged is made again."""
        return record if at_hand(record) else dict(self._started(task, again=True)(*arguments))

    def _started(self, task: Any, *, again: bool | None = None) -> Any:
        """Count a run of a task, and return the task; `again` computes a result that is stored, too."""
        self.n_task_runs += 1
        return refreshing(task, self.options.refresh_task == task.name if again is None else again)

    def _submit_block(
        self, block: Block, designs: Designs, *, again: bool = False
    ) -> "PrefectFuture[Record]":
        design, cell = designs[block.replicates.panel], self.options.refresh_cell
        code = modules_of(block.problem, {cell.estimator for cell in block.cells})
        sha256 = design["sha256"] if design else None
        key = cache_key("block", [run_block.fn.__module__, *code], block.described(), sha256)
        holds_cell = any(each.key == cell for each in block.cells)
        chosen = self.options.refresh_task == run_block.name and (holds_cell or cell is None)
        # One cell alone can only be run into rows that are whole.
        whole = not again and holds_cell and at_hand(stored_record(records_folder(home()) / key.name))
        only = cell if chosen and whole else None
        # No future of another task is in a block, so Prefect need not look for some among its cells.
        future: PrefectFuture[Record] = self._started(run_block, again=chosen or again).submit(
            key, quote(block), design, _rows_of(key), only
        )
        return future


@cache
def refreshing(task: Any, again: bool) -> Any:
    """Return a task that computes its result again although it is stored, or one that looks for it there."""
    return task.with_options(refresh_cache=again)


def _rows_of(key: CacheKey) -> str:
    return f"cache/blocks/{key}.parquet"
