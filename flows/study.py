"""The story of a study: bring the data, prepare it, run the blocks, collect, report."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from prefect import flow, runtime
from prefect.futures import PrefectFuture, as_completed
from prefect.utilities.annotations import quote

import dpalgos
from data.store.folders import home, private_folder
from data.store.references import DatasetRef
from data.store.shared import shared_address
from flows.engines.threads import THREADS
from flows.record.artifacts import LastResults, ProgressArtifact, attach_budget, attach_report
from flows.record.inventory import clear_leftovers
from flows.record.progress import progress, say
from flows.record.recorded_run import recorded
from flows.server.died import HOOKS
from flows.studies.find_study import find_study
from flows.studies.parameters import (
    DEFAULT_SEED,
    CellKey,
    Command,
    Offline,
    OutFolder,
    ProfileChoice,
    RefreshTask,
    Replicates,
    Seed,
    StudyChoice,
    Workers,
    check_studies,
    from_server,
    reports_folder,
    run_name,
)
from flows.studies.task_choice import check_cell, refreshing
from tasks.bring.analyst_parquet import own_parquet
from tasks.bring.fetch import fetch
from tasks.bring.parquet import parquet
from tasks.cache.keys import CacheKey, cache_key
from tasks.cache.records import Record, at_hand, located, records_folder, stored_record
from tasks.faults import guarded
from tasks.limits import Profile
from tasks.problems.abilities import HasExhibits
from tasks.problems.own_data import OwnData
from tasks.problems.problem import DatasetProblem, modules_of
from tasks.report.manifest import earlier_contents, now
from tasks.report.render import render, write_index
from tasks.report.shared_reports import share_report
from tasks.run.audit_cell import audit
from tasks.run.collect import collect
from tasks.run.exhibit import exhibit, headline_block
from tasks.run.memory import run_at_most
from tasks.run.prepare import prepare
from tasks.run.run_block import data_limit, run_block
from tasks.study.block import Block
from tasks.study.panel import Panel
from tasks.study.spec import StudySpec

Designs = dict[str, Record | None]  # by panel


@flow(name="study", flow_run_name=run_name, task_runner=THREADS, persist_result=False, **HOOKS)
@guarded
def run_study(
    study: StudyChoice,
    profile: ProfileChoice = "standard",
    reps: Replicates = None,
    seed: Seed = DEFAULT_SEED,
    offline: Offline = False,
    out: OutFolder = None,
    workers: Workers = None,
    refresh_task: RefreshTask = None,
    refresh_cell: CellKey = None,
    command: Command = "",
) -> dict[str, Any]:
    """Run one study from ingest to report, and return where the report lies.

    Parameters
    ----------
    study : str
        A study's name; from the command line also the path of its file.
    profile : {"smoke", "standard", "paper"}
    reps : int, optional
        Replicates per cell, instead of the profile's.
    seed : int
        From which all randomness of the study is derived.
    offline : bool
        Never use the network.
    out : str, optional
        Folder of the reports; ``reports/out`` in the project by default, from the server one below it.
    workers : int, optional
        Blocks at a time, at most; by default as many as the flow's task runner takes, one for each core.
    refresh_task, refresh_cell : str, optional
        Run this task (of ``run_block`` the one cell, if given) again although it is stored.
    command : str
        What the user typed, for the record.
    """
    check_studies(study)
    run_at_most(workers)
    spec = find_study(study)
    check_cell(spec, refresh_task, refresh_cell, profile)
    run = _Run(spec, reports_folder(out, spec.name), refresh_task, refresh_cell)
    replicates = reps or spec.replicates[profile]
    context: dict[str, Any] = {
        "study": study,
        "out": f"reports/out/{out}" if out and from_server() else out,
        "profile": profile,
        "replicates": replicates,
        "seed": seed,
        "command": command or f"dpcost run {study} --profile {profile} --reps {replicates} --seed {seed}",
        "started": now(),
    }
    with recorded(study, profile, own=spec.own is not None):
        clear_leftovers(home(), run.out)
        if spec.own is not None:
            private_folder(run.out / spec.name)
            if shared_address():
                say(
                    "note: your table and results on it go to DPCOST_STORE, too: keep it as safe as the "
                    "table; the report stays here"
                )
        found = {dataset: run.table(dataset, offline, profile) for dataset in spec.datasets_at(profile)}
        tables = {dataset: table for dataset, table in found.items() if table is not None}
        designs = {panel.name: run.design(tables, panel) for panel in run.spec.panels_at(profile)}
        blocks = run.spec.blocks(
            profile,
            replicates=replicates,
            seed=seed,
            data_sources={dataset: table.data_source for dataset, table in tables.items()},
        )
        parts = [*run.blocks(blocks, designs), *run.limit(blocks, designs)]
        last = LastResults(run.out / spec.name, {"profile": profile, "replicates": replicates})
        results = run.collected(parts, run.audits(blocks, spec.audit_trials.get(profile), seed))
        shown = run.exhibited(tables, designs, blocks, parts)
        context |= {"not_run": run.not_run, "earlier_contents": run.earlier_contents}
        report = run.rendered(tables, [results, *shown], context)
        index = write_index(run.out)
        share_report(run.out / spec.name)
        last.tell_drift(spec)
    attach_report(spec, Path(report["report"]))
    attach_budget(spec, located(results), run.spec.headline_cells(blocks))
    return {
        "report": report["report"],
        "index": str(index),
        "headline": report["headline"],
        "flow_run_id": str(runtime.flow_run.id),
        "n_task_runs": run.n_task_runs,
    }


class _Run:
    """The tasks of one run, each found in the cache or computed."""

    def __init__(
        self, spec: StudySpec, out: Path, refresh_task: str | None, refresh_cell: str | None
    ) -> None:
        self.spec, self.out = spec, out
        self.n_task_runs = 0
        self.not_run: dict[str, str] = {}  # panel → why
        self.earlier_contents: list[dict[str, str]] = []
        self._task, self._cell = refresh_task, refresh_cell

    def table(self, dataset: str, offline: bool, profile: Profile) -> DatasetRef | None:
        """Bring a dataset: the store is its own cache, verified on every use."""
        if self.spec.own and dataset == self.spec.name:
            return self._own_table(dataset, self.spec.own)
        self.n_task_runs += 1
        raw = fetch(dataset, offline, again=self._task == fetch.name)
        if raw.origin == "stand-in" and (panels := self.spec.panels_without_stand_in(dataset)):
            self._leave_out(panels, dataset, "; ".join(raw.reasons))
            return None
        rows = self.spec.stand_in_rows(dataset, profile)
        self.n_task_runs += 1
        table = parquet(raw, again=self._task == parquet.name, stand_in_rows=rows)
        if table.data_source != "real":
            say(f"note: {dataset} is a {table.data_source}, since {'; '.join(table.reasons)}")
        return table

    def _leave_out(self, panels: tuple[str, ...], dataset: str, why: str) -> None:
        for panel in panels:
            sentence = f"Panel “{panel}” did not run, since {dataset} cannot be had here: {why}."
            self.not_run[panel] = sentence
            say(f"note: {sentence}")
        self.spec = self.spec.without_panels(panels)

    def _own_table(self, dataset: str, own: OwnData) -> DatasetRef:
        """Bring a file of one's own, and say whether it changed since the last report."""
        self.n_task_runs += 1
        table = own_parquet(dataset, own)
        self.spec.check_rows(table)
        content = table.source_sha256
        self.earlier_contents = earlier_contents(self.out / self.spec.name, dataset, content)
        if self.earlier_contents:
            file, last = Path(own.path).name, self.earlier_contents[-1]["source_sha256"]
            say(f"note: {file} changed since an earlier run: its sha256 began {last[:8]}, now {content[:8]}")
        for repair in table.repairs:
            say(f"note: {repair.count:,} of {table.rows_read:,} rows {repair.reason}")
        return table

    def design(self, tables: dict[str, DatasetRef], panel: Panel) -> Record | None:
        """Prepare the data of a panel; there is nothing to prepare where they are simulated."""
        problem = panel.problem
        if not isinstance(problem, DatasetProblem):
            return None
        columns = [asdict(column) for column in problem.columns()]
        plain, table = problem.model_dump(mode="json"), tables[problem.source]
        code = [prepare.fn.__module__, *modules_of(problem)]
        return self._now(prepare, cache_key("design", code, table.sha256, plain, columns), problem, table)

    def blocks(self, blocks: list[Block], designs: Designs) -> list[Record]:
        """Run the blocks side by side, the longest first; return their records in a fixed order."""
        submitted: dict[PrefectFuture[Record], Block] = {}
        records: dict[str, Record] = {}
        on_server = ProgressArtifact(self.spec.name, len(blocks))
        with progress(len(blocks), sum(block.work for block in blocks)) as shown:
            for block in sorted(blocks, key=lambda block: -block.work):
                submitted[self._submit(block, designs[block.replicates.panel])] = block
            for future in as_completed(list(submitted)):
                block, record = submitted[future], future.result()
                found = future.state.name == "Cached"
                if not at_hand(record):
                    found = False
                    record = self._submit(block, designs[block.replicates.panel], again=True).result()
                records[block.key] = record
                shown.advance(block.work, found=found)
                on_server.advance()
        return [records[block.key] for block in blocks]

    def limit(self, blocks: list[Block], designs: Designs) -> list[Record]:
        """Compute the own limit of each dataset, on the headline's panel or the first that reads it."""
        deleted, records = list(self.spec.deleted_rows), []
        if not deleted:
            return []
        chosen: dict[str, Block] = {}
        for block in sorted(blocks, key=lambda block: block.replicates.panel != self.spec.headline.panel):
            chosen.setdefault(block.problem.source, block)
        for block in chosen.values():
            design = designs[block.replicates.panel]
            assert design is not None  # checked when the file was read
            code = [data_limit.fn.__module__, *modules_of(block.problem)]
            inputs = [self.spec.name, block.replicates.panel, block.data_source, design["sha256"], deleted]
            key = cache_key("limit", code, *inputs)
            records.append(self._now(data_limit, key, block, design, self._rows_of(key), deleted))
        return records

    def audits(self, blocks: list[Block], n_trials: int | None, seed: int) -> list[Record]:
        """Try to break the private estimators at the headline's setting, side by side."""
        if n_trials is None:
            return []
        n_features = self.spec.head_panel.problem.sizes(self.spec.headline.n)["d"]
        submitted = []
        for cell in self.spec.headline_cells(blocks):
            code = [audit.fn.__module__, dpalgos.get_estimator(cell.estimator).function.__module__]
            key = cache_key("audit", code, asdict(cell), n_features, n_trials, seed)
            path = f"cache/audits/{key}.json"
            arguments = (key, cell, n_features, n_trials, seed, path)
            submitted.append((arguments, self._submit_task(audit, arguments)))
        records = [(arguments, future.result()) for arguments, future in submitted]
        return [
            record if at_hand(record) else self._submit_task(audit, arguments, again=True).result()
            for arguments, record in records
        ]

    def collected(self, parts: list[Record], audits: list[Record]) -> Record:
        """Put the rows of all parts, and what the audits found, into one table."""
        folder = self.out / self.spec.name
        contents = [[part["sha256"], part.get("beside")] for part in (*parts, *audits)]
        key = cache_key("results", [collect.fn.__module__], contents, str(folder))
        return self._now(collect, key, parts, audits, str(folder))

    def exhibited(
        self,
        tables: dict[str, DatasetRef],
        designs: Designs,
        blocks: list[Block],
        parts: list[Record],
    ) -> list[Record]:
        """Write what the report shows beside the results of the headline's panel, if there is anything."""
        head = self.spec.head_panel
        if not isinstance(head.problem, HasExhibits):
            return []
        own = [(b, part) for b, part in zip(blocks, parts, strict=False) if b.replicates.panel == head.name]
        block = headline_block([b for b, _ in own], self.spec.headline.n, self.spec.headline_cells(blocks))
        table, design = tables.get(head.problem.source), designs[head.name]
        folder = str(self.out / self.spec.name)
        key = cache_key(
            "exhibits",
            [exhibit.fn.__module__, *modules_of(head.problem, {cell.estimator for cell in block.cells})],
            block.described(),
            table.sha256 if table else None,
            design["sha256"] if design else None,
            [part["sha256"] for _, part in own],
            folder,
            of_page=True,
        )
        return [self._now(exhibit, key, block, table, design, [part for _, part in own], folder)]

    def rendered(
        self, tables: dict[str, DatasetRef], results: list[Record], context: dict[str, Any]
    ) -> Record:
        """Write the report beside the table, and beside what else was written there."""
        settings = [context[name] for name in ("profile", "replicates", "seed")]
        shas = [table.sha256 for table in tables.values()]
        problems = [module for panel in self.spec.panels for module in modules_of(panel.problem)]
        found = [{key: value for key, value in record.items() if key != "code"} for record in results]
        code, plain = [render.fn.__module__, *problems], self.spec.model_dump(mode="json")
        key = cache_key("page", code, plain, shas, found, settings, of_page=True)
        return self._now(render, key, self.spec, list(tables.values()), results[0], context)

    def _now(self, task: Any, key: CacheKey, *arguments: Any) -> Record:
        """Run a task in the main thread; a stored record whose file is gone or damaged is made again."""
        self.n_task_runs += 1
        record: Record = refreshing(task, self._task == task.name)(key, *arguments)
        if not at_hand(record):
            self.n_task_runs += 1
            record = refreshing(task, True)(key, *arguments)
        return record

    def _submit(self, block: Block, design: Record | None, *, again: bool = False) -> "PrefectFuture[Record]":
        self.n_task_runs += 1
        code = modules_of(block.problem, {cell.estimator for cell in block.cells})
        sha256 = design["sha256"] if design else None
        key = cache_key("block", [run_block.fn.__module__, *code], block.described(), sha256)
        holds_cell = any(cell.key == self._cell for cell in block.cells)
        chosen = self._task == run_block.name and (holds_cell or self._cell is None)
        # One cell alone can only be run into rows that are whole.
        whole = not again and holds_cell and at_hand(stored_record(records_folder(home()) / key.name))
        only = self._cell if chosen and whole else None
        # No future of another task is in a block, so Prefect need not look for some among its cells.
        arguments = (key, quote(block), design, self._rows_of(key), only)
        future: PrefectFuture[Record] = refreshing(run_block, chosen or again).submit(*arguments)
        return future

    def _submit_task(
        self, task: Any, arguments: tuple[Any, ...], *, again: bool = False
    ) -> "PrefectFuture[Record]":
        self.n_task_runs += 1
        future: PrefectFuture[Record] = refreshing(task, again or self._task == task.name).submit(*arguments)
        return future

    def _rows_of(self, key: CacheKey) -> str:
        return f"cache/blocks/{key}.parquet"
