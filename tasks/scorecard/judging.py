"""Judge the claims of the papers on the results of the studies, and write the scorecard."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

import dpalgos
from data.results.summary import summarize, summary_csv
from data.results.table import COLUMNS, PrintedFigure, to_parquet_bytes, validate_results
from data.store.folders import atomic_write
from reports.cells import comma
from reports.pages.scorecard import FigureRow, Judged, render_scorecard, tally
from reports.writing import render_sentence, setting, when, words
from tasks.errors import guarded
from tasks.papers import paper_names
from tasks.report.manifest import MANIFEST, sealed
from tasks.scorecard.claims import (
    FAILS,
    HOLDS,
    NO_RUN,
    NO_SUCH_ANSWER,
    NO_TEST,
    OPEN,
    AnyTest,
    Claim,
    Evidence,
    Guarantee,
    Judgment,
    Scorecard,
    TooFewAnswers,
)
from tasks.size_rules import delta_at
from tasks.study.spec import SCORECARD, StudySpec

Verdicts = Mapping[str, Mapping[str, Judgment]]  # of claims by id, by calibration
FIGURES = "figures.csv"  # the printed figures, next to the page


def printed_figures(studies: Iterable[StudySpec], verdicts: Verdicts) -> list[FigureRow]:
    """Return a row for each printed figure that a study names, by paper and name."""
    order, rows = list(paper_names()), []
    for spec in studies:
        for figure in spec.figures:
            about = figure.paper, figure.name, spec.name, figure.panel, figure.same_settings, figure.differs
            rows.append(FigureRow(*about, *_shape(figure, verdicts)))
    return sorted(rows, key=lambda row: (order.index(row.paper), row.name))


def _shape(figure: PrintedFigure, verdicts: Verdicts) -> tuple[str, str]:
    """Return whether the claims about a figure hold at its calibration, and why not."""
    calibration = figure.lines[0].calibration if figure.lines else "tight"
    judged = [_at(calibration, verdicts[name]) for name in figure.claims if name in verdicts]
    if not judged:
        return "not tested", ""
    values = [verdict.value for verdict in judged]
    why = " ".join(verdict.text for verdict in judged if verdict.value != HOLDS)
    return "no" if FAILS in values else "yes" if set(values) == {HOLDS} else "not tested", why


def _at(calibration: str, verdicts: Mapping[str, Judgment]) -> Judgment:
    """Return the verdict at a calibration, or at the other one where the study has no estimate for it."""
    other = {"paper": "tight", "tight": "paper"}[calibration]
    missing = verdicts[calibration].why_open == NO_SUCH_ANSWER and verdicts[calibration].value != HOLDS
    return verdicts[other] if missing else verdicts[calibration]


@guarded
def scorecard_page(
    scorecard: Scorecard,
    evidence: dict[str, Evidence],
    studies: Sequence[StudySpec],
    out: Path,
    context: dict[str, Any],
) -> Path:
    """Write results, summary, page, card and manifest into a folder, the manifest last; return the page."""
    judged = [
        (claim, judge(claim, evidence.get(claim.study)))
        for entry in scorecard.claims
        for claim in entry.on_panels(evidence.get(entry.study))
    ]
    results = verdict_table(judged, evidence, context["seed"])
    rows = [
        Judged(claim.paper, claim.text, claim.where, claim.study, claim.study in evidence, verdicts)
        for claim, verdicts in judged
    ]
    figures = printed_figures(studies, {claim.id: verdicts for claim, verdicts in judged})
    is_trial = any(each["profile"] == "smoke" for each in context["evidence"].values())
    trial = render_sentence("trial_scorecard") if is_trial else ""
    profiles = sorted({str(each["profile"]) for each in context["evidence"].values()})
    ran = comma(f"Profile {words(profiles)}" if profiles else "", when(context["started"]))
    title, question = scorecard.title, scorecard.question.strip()
    files = {
        "results.parquet": to_parquet_bytes(results),
        "summary.csv": summary_csv(summarize(results)).encode(),
        FIGURES: pd.DataFrame(figures).to_csv(index=False).encode(),
        **render_scorecard(
            title,
            question,
            scorecard.papers,
            rows,
            figures,
            context["command"],
            ran,
            without_figures=[scorecard.papers[key] for key in scorecard.without_figures],
            trial=trial,
        ),
    }
    manifest = {
        **context,
        "finished": context["started"],
        "page": {
            "title": title,
            "headline": tally(rows),
            "panel": "",
            "errors": None,
            "trial": trial,
            "not_compared": "it judges claims",
        },
        "results_sha256": hashlib.sha256(files["results.parquet"]).hexdigest(),
        "evidence": {name: context["evidence"].get(name) for name in evidence},
    }
    files[MANIFEST] = sealed(manifest)
    for name, content in files.items():
        atomic_write(out / name, content)
    return out / "report.html"


def judge(claim: Claim, evidence: Evidence | None) -> dict[str, Judgment]:
    """Return the verdict with the paper's calibration and with the smallest noise that is proved."""
    if evidence is None:
        missing = Judgment(OPEN, f"The study {claim.study} has not run here.", NO_RUN)
        return dict.fromkeys(("paper", "tight"), missing)
    if claim.test is None:
        return dict.fromkeys(("paper", "tight"), Judgment(OPEN, claim.untestable, NO_TEST))
    verdicts = {each: _judge_at(claim, claim.test, evidence, each) for each in ("paper", "tight")}
    sources = evidence.results.loc[claim.rows_of(evidence.results), "data_source"]
    if not (sources == "stand-in").any():
        return verdicts
    caution = "On simulated data in place of the real ones."
    return {each: replace(judgment, text=f"{judgment.text} {caution}") for each, judgment in verdicts.items()}


def _judge_at(claim: Claim, test: AnyTest, evidence: Evidence, calibration: str) -> Judgment:
    """Return a verdict whose text names the ε, and the number of estimates if repetitions have none."""
    try:
        verdict = test.judge(claim, evidence, calibration)
    except TooFewAnswers as error:
        return Judgment(OPEN, str(error), "too few estimates")
    if isinstance(test, Guarantee) or verdict.why_open == NO_SUCH_ANSWER:
        return verdict
    epsilon = getattr(test, "epsilon", None) or evidence.epsilon_at(claim.panel)
    sentences = [verdict.text]
    if dpalgos.get_estimator(claim.estimator).private:
        sentences.append(f"The claim is judged at ε = {setting(epsilon)}.")
    n_answered, n_repetitions = evidence.answers(claim, calibration, epsilon)
    if n_answered < n_repetitions:
        sentences.append(f"There is an estimate on {n_answered} of {n_repetitions} repetitions.")
    return replace(verdict, text=" ".join(sentences))


def verdict_table(
    judged: list[tuple[Claim, dict[str, Judgment]]], evidence: dict[str, Evidence], seed: int
) -> pd.DataFrame:
    """Return the verdicts as a results table: ``metric`` is the claim's id, ``value`` 1, 0 or NaN."""
    rows = [
        {
            "study": SCORECARD,
            "panel": claim.panel,
            **_about(evidence.get(claim.study)),
            "estimator": claim.estimator,
            "form": claim.form,
            "steps": claim.steps,
            "cell": f"{claim.id}:{calibration}",
            "calibration": calibration,
            "privacy_model": dpalgos.get_estimator(claim.estimator).privacy_model.replace("none", "central"),
            "replicate": 0,
            "seed": seed,
            "metric": claim.id,
            "value": verdict.value,
            "status": "ok",
            "message": verdict.text,
        }
        for claim, verdicts in judged
        for calibration, verdict in verdicts.items()
    ]
    return validate_results(pd.DataFrame(rows).reindex(columns=list(COLUMNS)))


def _about(evidence: Evidence | None) -> dict[str, Any]:
    if evidence is None:
        budget = {"epsilon": 0.5, "delta": 0.0, "delta_rule": ""}
        return {"dataset": "", "data_source": "simulated", "n": 1, "d": 0, **budget}
    head, first = evidence.spec.headline, evidence.results.iloc[0]
    rule = head.paper_delta or head.delta
    budget = {"epsilon": head.epsilon, "delta": delta_at(rule, head.n), "delta_rule": rule}
    return {**first[["dataset", "data_source"]], "n": head.n, "d": int(first["d"]), **budget}
