"""What the comparison proves of a release, and who it says is closest."""

import numpy as np

from tests.bench_peers import audits, page

RNG = np.random.default_rng(0)


def proved(first, second):
    (found,) = audits.of_peers({"a library": [first.tolist(), second.tolist()]})
    return found["proved"]


def test_runs_prove_no_more_than_laplace_noise_tells():
    n = 20_000
    bound = proved(RNG.laplace(size=n), 1 + RNG.laplace(size=n))
    assert 0.8 < bound <= 1


def test_runs_show_what_has_no_noise_from_either_side():
    still = np.zeros(200)
    for first, second in ((still, still + 1), (still + 1, still), (still, RNG.laplace(size=200))):
        assert proved(first, second) > 1
    assert proved(still, still) == 0


def row(who, ours, epsilon, error):
    return {
        "table": "fair", "task": "mean", "who": who, "ours": ours, "epsilon": epsilon, "error": error,
        "standard_error": 0.1, "seconds": 0.01, "megabytes": 1.0, "repetitions": 2,
    }  # fmt: skip


def test_the_page_compares_the_best_of_ours_with_the_best_peer():
    rows = [
        row("a", True, 1.0, 4.0),
        row("b", True, 1.0, 2.0),
        row("c", False, 1.0, 8.0),
        row("c", False, 2.0, 1.0),
    ]
    rows.append(row("a", True, 2.0, 3.0))
    told = [{"who": "c", "ours": False, "proved": 0.25, "most": 2.5, "trials": 100}]
    text = page.markdown(rows, told)
    assert "| fair | mean | 1 | b 2 | c 8 | 0.25 |" in text
    assert "| fair | mean | 2 | a 3 | c 1 | 3 |" in text
    assert "| c (peer) | 0.25 | 2.50 (100 runs on each neighbor) |" in text
    assert page.html(rows, told).count("data:image/svg+xml;base64,") == 1
