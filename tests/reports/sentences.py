"""What the sentences of a page of errors say, read back from their text and computed again from results.

Nothing of `reports` computes here: means and errors come from the rows of results.parquet alone.
"""

import math
import re

import numpy as np
import pytest

from reports.writing import rule_text

NUMBER = r"(\d[\d,]*\.?\d*(?:e-?\d+)?)"
PLACE = re.compile(
    r"\((?:“(?P<panel>.*?)”, )?(?P<sizes>[A-Za-z]+ = .*), δ = (?P<delta>[^()]*(?:\(.*?\))?[^()]*)\)\."
)
AT = re.compile(r"ε = (?P<epsilon>[\d.,]+)")


def number(text):
    return float(text.replace(",", "").rstrip("."))


def panel_in(text):
    """Return the panel that a text names first; empty if it names none."""
    found = re.search(r"“(.*?)”", text)
    return found[1].removesuffix(": no signal") if found else ""


def means(results, metric):
    """Return, for each cell of a metric, its mean, standard error and facts, from its repetitions."""
    rows = results[(results["metric"] == metric) & (results["status"] == "ok")]
    found = rows.groupby("cell").agg(
        estimator=("estimator", "first"), form=("form", "first"), calibration=("calibration", "first"),
        model=("privacy_model", "first"), panel=("panel", "first"), epsilon=("epsilon", "first"),
        delta_rule=("delta_rule", "first"), n=("n", "first"), s=("s", "first"), steps=("steps", "first"),
        certified=("estimator_epsilon", "max"), mean=("value", "mean"), sd=("value", "std"),
        count=("value", "size"),
    )  # fmt: skip
    found["se"] = (found["sd"] / np.sqrt(found["count"])).fillna(0.0)
    return found[np.isfinite(found["mean"])]


class Stated:
    """A headline: the setting that it names, and the answers that results.parquet has there."""

    def __init__(self, sentence, results, page):
        self.text, self.page = sentence, page
        place = PLACE.search(sentence)
        assert place, f"the sentence names no setting: {sentence}"
        self.outside = PLACE.sub(".", sentence)
        panel = (place["panel"] or "").removesuffix(": no signal")
        self.panel = panel
        sizes = dict(part.split(" = ") for part in place["sizes"].split(", ") if " = " in part)
        self.sizes = {name: number(value) for name, value in re.findall(r"(\w+) = ([\d,]+)", place["sizes"])}
        assert sizes
        cells = means(results, page.metric)
        at = AT.search(self.outside)
        private = cells[(cells["model"] != "none") & (cells["panel"] == panel)]
        epsilon = number(at["epsilon"]) if at else None
        rules = dict.fromkeys(private["delta_rule"].unique(), page.axis.rows_symbol)
        rule = next(rule for rule, symbol in rules.items() if rule_text(rule, symbol) == place["delta"])
        private = private[private["delta_rule"] == rule]
        if epsilon is not None:
            private = private[np.isclose(private["epsilon"], epsilon)]
        x = self.sizes[page.axis.symbol]
        column = page.axis.column
        on_axis = private[column].astype(float)
        self.private = private[(on_axis == x) | on_axis.isna()]
        self.private = self.private[~np.isinf(self.private["certified"].astype(float))]
        others = cells[(cells["model"] == "none") & cells["panel"].isin((panel, ""))]
        there = others[column].astype(float)
        others = others[(there == x) | there.isna()]
        self.zero = others[others["estimator"] == "zero"]
        self.without = others[others["estimator"] != "zero"]
        models = set(self.private["model"])
        strongest = next((each for each in ("local", "user", "central") if each in models), "")
        self.private = self.private[self.private["model"] == strongest]
        assert len(self.private)

    def beats_zero(self, rows):
        """Return which rows are below zero by more than two standard errors of the difference."""
        if self.zero.empty:
            return np.ones(len(rows), dtype=bool)
        zero = self.zero.iloc[0]
        return (rows["mean"] + 2 * np.hypot(rows["se"], zero["se"]) < zero["mean"]).to_numpy()

    @property
    def best(self):
        return self.private.loc[self.private["mean"].idxmin()]


def check_headline(sentence, results, page):
    """Check who is better, by how much, in which panel, at which ε, δ and size."""
    stated = Stated(sentence.removeprefix("Not the real data: "), results, page)
    text, best = stated.outside, stated.best
    population = page.population_of(stated.panel) if page.axis.column == "n" else 0
    if "no estimate is clearly better" in text:
        whole = population and stated.sizes.get("m", 0) < population
        assert whole or not stated.beats_zero(stated.without).any() or not len(stated.without)
        return "nothing can be learned"
    if "clearly better than ignoring" in text:
        assert not stated.beats_zero(stated.private).any()
        return "none better"
    assert stated.beats_zero(stated.private).any()
    if found := re.search(rf"leaves {NUMBER}%.*no privacy {NUMBER}%", text):
        expected = (best["mean"], stated.without["mean"].min())
        for told, mean in zip(found.groups(), expected, strict=True):
            assert number(told) == near(100 * mean)
        return "shares"
    if found := re.search(rf"ignoring the data makes the error {NUMBER} times", text):
        assert number(found[1]) == near(factor(stated.zero["mean"].iloc[0], best["mean"], page))
        return "zero"
    if "right in every repetition" in text:
        assert best["mean"] == 0
        return "right"
    found = re.search(rf"makes the error {NUMBER} times|the error is {NUMBER} times", text)
    assert found, text
    told = number(found[1] or found[2])
    if not population:  # else both are those of a new sample, which test_ranking computes
        assert told == near(factor(best["mean"], stated.without["mean"].min(), page))
    if "next to nothing" in text:
        assert told < 1.15
    if found := re.search(rf"having {NUMBER}(?: to {NUMBER})? \w+ instead of {NUMBER}", text):
        low, high = number(found[1]), number(found[2] or found[1])
        rows = number(found[3])
        assert low <= rows / (told * 0.95) ** 2
        assert high >= rows / (told * 1.05) ** 2
        assert np.isclose(rows, stated.sizes[page.axis.symbol], rtol=0.05)
    return "factor"


def factor(one, other, page):
    """Return the ratio of two errors, which may be logarithms of squares."""
    return math.exp((one - other) / 2) if page.metric == "log_squared_error" else one / other


def near(value):
    """Compare with a number that is shown with two digits."""
    return pytest.approx(value, rel=0.06)


def check_best_by_size(text, results, page):
    """Check the estimators that a page calls best: none has an error clearly below theirs."""
    if not text:
        return
    epsilon, delta = AT.search(text)["epsilon"], re.search(r"δ = ([^,]+)", text)[1]
    cells = means(results, page.metric)
    private = cells[(cells["model"] != "none") & (cells["panel"] == panel_in(text))]
    private = private[np.isclose(private["epsilon"], number(epsilon))]
    texts = private["delta_rule"].map(lambda rule: rule_text(rule, page.axis.rows_symbol))
    private = private[(texts == delta) & ~np.isinf(private["certified"].astype(float))]
    models = set(private["model"])
    private = private[
        private["model"] == next(each for each in ("local", "user", "central") if each in models)
    ]
    symbol, column = page.axis.symbol, page.axis.column
    named = re.search(r"comes from: (.*?)(?:\. At|\.(?: |$))", text, re.DOTALL)
    for part in named[1].split("; ") if named else ():
        label, _, sizes = part.rpartition(f" at {symbol} = ")
        for size in map(number, re.split(r", | and ", sizes)):
            on_axis = private[column].astype(float)
            at = private[(on_axis == size) | on_axis.isna()]
            first = at.loc[at["mean"].idxmin()]
            assert label.startswith(page.estimator(first["estimator"]).title)
            others = at.drop(first.name)
            assert (others["mean"] - first["mean"] > 2 * np.hypot(others["se"], first["se"])).all()


def check_errors(text, results, page):
    """Check the errors that a page names at its setting: the best private one's and that of zero."""
    size = re.search(rf"{page.axis.symbol} = ([\d,]+)", text)
    cells = means(results, page.metric)
    cells = cells[cells["panel"].isin(("", panel_in(text)))]
    if found := re.search(rf"zero baseline has {NUMBER}", text):
        at_zero = cells[cells["estimator"] == "zero"]
        column = at_zero[page.axis.column].astype(float)
        at_zero = at_zero[(column == number(size[1])) | column.isna()]
        assert number(found[1]) == near(at_zero["mean"].iloc[0])
    if found := re.search(rf"smallest private error is {NUMBER} (?!×)", text):
        private = cells[
            (cells["model"] != "none") & np.isclose(cells["epsilon"], number(AT.search(text)["epsilon"]))
        ]
        assert np.isclose(private["mean"], number(found[1]), rtol=0.06).any()
