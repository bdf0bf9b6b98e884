"""The page: the smallest error at every ε, audited lower bounds, and error against time."""

import base64
from operator import itemgetter

import altair as alt

from reports.charts.picture import picture as drawn
from tests.bench_peers.audits import DELTA, EPSILON
from tests.bench_peers.tables import TABLES
from tests.result_page import html_page, html_table, markdown_table

TITLE = "Private estimators compared with other libraries"
WHAT = {
    "mean": "Means of all columns: ℓ2 distance to the means",
    "linear": "Linear regression: ℓ2 distance to least squares",
    "logistic": "Logistic regression: share misclassified",
}
INTRODUCTION = (
    "All rows of each table, in public units, with public bounds; the same for everybody. Neighbors differ "
    "in one row, replaced; δ = 1/n² where a method has one. Mean ± standard error, median time and peak "
    "allocation of a run, one thread. Settings are defaults or those of the study, not tuned for this "
    "page. jax-privacy gets the noise that our accountant proves for replacing a row, since its own counts "
    "adding or removing one; its arrays are not among the MB. Opacus is left out: it would install gigabytes "
    "for graphics cards."
)
NOTES = (
    "Means: the bounds are the same for all; where they hold nothing is clipped, nothing biased. The noise "
    "of box_mean fills the box in which a row moves the means, never more than noise for each column by "
    "itself. Estimators that look for a center and a radius (clipped_mean, coinpress_mean) clip skewed "
    "columns, a bias that does not fade with ε; so does dp_mean, with one bound for all columns.",
    "diffprivlib's LinearRegression scales the noise on a column's sum of squares by the square of its lower "
    "bound alone, so that with bounds (0, 1) that sum is released as it is. Its errors below are not those "
    "of a private method. What so few runs prove of the others shows gross mistakes only.",
)


def sections(rows: list[dict], audits: list[dict]) -> list[tuple[str, str | None, list[list[str]]]]:
    """Return (heading, picture or none, table with its head) in the order of the page."""
    found = [
        ("The smallest errors", None, _summary(rows)),
        ("Lower bounds on ε at ε = 1", None, _audits(audits)),
    ]
    for (name, task), chosen in _groups(rows).items():
        found.append((f"{TABLES[name].title}. {WHAT[task]}", picture(chosen), _table(chosen)))
    return found


def markdown(rows: list[dict], audits: list[dict]) -> str:
    parts = [f"# {TITLE}", INTRODUCTION, *NOTES]
    for heading, _, (head, *lines) in sections(rows, audits):
        parts += [f"## {heading}", markdown_table(head, lines)]
    return "\n\n".join(parts) + "\n"


def html(rows: list[dict], audits: list[dict]) -> str:
    parts = [f"<p>{text}</p>" for text in (INTRODUCTION, *NOTES)]
    for heading, image, (head, *lines) in sections(rows, audits):
        parts += [f"<h2>{heading}</h2>", image or "", html_table(head, lines)]
    return html_page(TITLE, parts)


def _groups(rows: list[dict]) -> dict[tuple[str, str], list[dict]]:
    found: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        found.setdefault((row["table"], row["task"]), []).append(row)
    return found


def _summary(rows: list[dict]) -> list[list[str]]:
    """Return the best of ours and of theirs for every table, task and ε."""
    lines = [["table", "task", "ε", "best of ours", "best peer", "ours / peer"]]
    for (name, task), chosen in _groups(rows).items():
        for epsilon in sorted({r["epsilon"] for r in chosen if r["epsilon"] < float("inf")}):
            at = [r for r in chosen if r["epsilon"] == epsilon]
            ours, peer = (
                min((r for r in at if r["ours"] is own), key=itemgetter("error")) for own in (True, False)
            )
            lines.append(
                [name, task, f"{epsilon:g}", *(f"{r['who']} {r['error']:.4g}" for r in (ours, peer)),
                 f"{ours['error'] / peer['error']:.2g}"]
            )  # fmt: skip
    return lines


def _audits(audits: list[dict]) -> list[list[str]]:
    bound = f"ε is at least (asked {EPSILON:g}; δ = {DELTA:g} or 0)"
    return [["who", bound, "most that as many runs can prove"]] + [
        [_who(a), f"{a['proved']:.2f}", f"{a['most']:.2f} ({a['trials']:,} runs on each neighbor)"]
        for a in sorted(audits, key=lambda a: (a["ours"], a["who"]))
    ]


def _who(row: dict) -> str:
    return str(row["who"]) if row["ours"] else f"{row['who']} (peer)"


def _table(rows: list[dict]) -> list[list[str]]:
    """Return the lines of a table, the smallest error first at each ε."""
    return [["ε", "who", "error", "ms", "MB"]] + [
        [
            f"{r['epsilon']:g}",
            _who(r),
            f"{r['error']:.4g} ± {r['standard_error']:.2g}",
            f"{1000 * r['seconds']:.3g}",
            f"{r['megabytes']:.3g}",
        ]
        for r in sorted(rows, key=lambda r: (r["epsilon"], r["error"]))
    ]


def picture(rows: list[dict]) -> str:
    """Return error against time, a number for each ε, as an image element."""
    values = [{**{key: r[key] for key in ("seconds", "error", "epsilon")}, "who": _who(r)} for r in rows]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("seconds:Q", scale=alt.Scale(type="log"), axis=alt.Axis(title="seconds per run")),
        y=alt.Y("error:Q", scale=alt.Scale(type="log")),
        color=alt.Color("who:N", title=None),
    )
    numbers = base.mark_text(dy=-8, fontSize=9).encode(text="epsilon:Q")
    chart = alt.layer(base.mark_line(point=True), numbers).properties(width=480, height=300)
    alt_text = "Error against seconds, numbers are ε"
    source = base64.b64encode(drawn(chart, "peers", alt_text, "", png=False).svg).decode()
    return f'<img alt="{alt_text}" src="data:image/svg+xml;base64,{source}">'
