"""A row that validation admits moves each release by at most its sensitivity, whatever its size.

Entries are up to 10⁶⁰ in magnitude, and down to denormal numbers. Released values are finite, and no warning
and no exception is raised while rows are read: one row could decide it, which would be a leak.
"""

import warnings
import zlib

import numpy as np
import pytest

from dpalgos.accounting import events as kinds
from dpalgos.api import build_params, run_estimator
from dpalgos.audit.trials import RecordingSpend
from dpalgos.release.checks import LARGEST_VALUE
from dpalgos.release.noise_source import Noise
from dpalgos.rows.sample import Sample
from dpalgos.rows.streams import StreamedRows, StreamRefused
from tests.contract.forms import IDS, PRIVATE, SETTINGS, STAGES, keywords, response, whose
from tests.contract.moves import excess, releases
from tests.contract.test_estimators import COEF, combination, fewest_columns

SIZES = np.array([0.0, 5e-324, 1e-300, 1e-160, 1e-30, 0.5, 2.0, 40.0, 1e15, 2.0**53, 1e30, LARGEST_VALUE])
LARGEST_SINGLE = 3e38
each_form = pytest.mark.parametrize(("estimator", "calibration"), PRIVATE + SETTINGS, **IDS)
STYLES = "held", "streamed", "masked", "single precision"


def far_row(rng, d):
    """A row and a response, of signed sizes: each of its own, all of one, or along one axis."""
    row = rng.choice(SIZES, d) if rng.random() < 0.5 else np.full(d, rng.choice(SIZES))
    row = row * rng.choice([-1, 1], d)
    if rng.random() < 0.25:
        row = row * np.eye(d)[rng.integers(d)]
    return row, rng.choice(SIZES) * rng.choice([-1, 1])


def table(rng, n, d):
    """Rows of size one, or of many sizes, or all equal."""
    kind = rng.integers(4)
    X, y = rng.standard_t(1.5, (n, d)), rng.standard_t(1.5, n)
    if kind == 1:
        X, y = X * 10.0 ** rng.uniform(-8, 8, d), y * 10.0 ** rng.uniform(-8, 8)
    if kind == 2:
        X, y = np.repeat(X[:1], n, axis=0), np.repeat(y[:1], n)
    if kind == 3:
        X, y = (X > 0.5).astype(float), y * rng.choice([0.0, 1e55])
    return X, y


def sample_of(estimator, X, y, style, mask=None):
    """Return rows, held or streamed, in double or single precision; with a mask, of two replicates."""
    y = response(estimator, y)
    options = {
        "row_mask": mask,
        "n_replicates": 1 if mask is None else 2,
        "user_ids": whose(estimator, len(X)),
    }
    if style in ("held", "masked") or estimator.in_memory:
        return Sample(X, y, **options)
    dtype = np.float32 if style == "single precision" else np.float64
    parts = [slice(start, start + 7) for start in range(0, len(X), 7)]
    blocks = [X[p].astype(dtype) if y is None else (X[p].astype(dtype), y[p].astype(dtype)) for p in parts]
    return Sample(StreamedRows(lambda: iter(blocks), len(X)), **options)


def recorded(estimator, params, sample, before=None):
    noise = Noise(np.random.default_rng(0).spawn(sample.n_replicates))
    known = {"script": before.published, "drawn": before.drawn} if before else {}
    made = RecordingSpend(noise, **known)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return made, run_estimator(estimator, sample, params, made)


def table_for(estimator, n, rng):
    """Return a table for a form, and which of its rows are those of the first person."""
    d = len(COEF) if fewest_columns(estimator) == len(COEF) else int(rng.choice([3, 5]))
    X, y = table(rng, n, d)
    if estimator.example.get("intercept"):
        X[:, -1] = 1.0
    ids = whose(estimator, n)
    return X, y, (np.arange(n) if ids is None else ids) == 0


def replaced(X, y, own, rng, most=LARGEST_VALUE):
    X, y = X.copy(), y.copy()
    X[own], y[own] = far_row(rng, X.shape[1])
    return np.clip(X, -most, most), np.clip(y, -most, most)


def mask_of(rng, own, *, with_own):
    """Return a mask of two replicates with as many rows each, with or without those of the first person."""
    others = np.flatnonzero(~own)
    mask = np.repeat((own & with_own)[:, None], 2, axis=1)
    for column in mask.T:
        column[rng.choice(others, int(0.8 * len(others)), replace=False)] = True
    return mask


def assert_admitted(estimator, calibration, n, epsilon, rng, style=None):
    style = style or rng.choice(STYLES[:2] if estimator.relation is kinds.Relation.LOCAL else STYLES)
    params = build_params(estimator, keywords(estimator, calibration, epsilon=epsilon))
    X, y, own = table_for(estimator, n, rng)
    most = LARGEST_SINGLE if style == "single precision" else LARGEST_VALUE
    mask = mask_of(rng, own, with_own=True) if style == "masked" else None
    pair = [sample_of(estimator, *replaced(X, y, own, rng, most), style, mask) for _ in range(2)]
    first, answer = recorded(estimator, params, pair[0])
    assert first.releases
    second, same = recorded(estimator, params, pair[1], first)
    for (event, value), (_, other) in zip(releases(first), releases(second), strict=True):
        assert np.isfinite(value).all(), event.label
        assert np.isfinite(other).all(), event.label
        assert (excess(event, value, other) <= 1 + 1e-9).all(), event.label
    assert np.isfinite(answer).all()
    if estimator.relation is not kinds.Relation.LOCAL:  # whose reports are drawn anew
        np.testing.assert_array_equal(answer, same)


@each_form
def test_no_row_that_is_admitted_shows(estimator, calibration):
    rng = np.random.default_rng(zlib.crc32(f"{estimator.label}-{calibration}".encode()))
    assert_admitted(estimator, calibration, 40, combination(estimator, calibration)[0], rng)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("estimator", "calibration"), STAGES, **IDS)
def test_no_row_that_is_admitted_shows_at_any_stage(estimator, calibration, style):
    rng = np.random.default_rng(2)
    for _ in range(5):
        assert_admitted(estimator, calibration, 400, estimator.example["epsilon"], rng, style)


@pytest.mark.parametrize("style", ["masked", "streamed"])
@pytest.mark.parametrize(("estimator", "calibration"), PRIVATE, **IDS)
def test_rows_that_a_mask_leaves_out_are_in_no_release(estimator, calibration, style):
    if estimator.relation is kinds.Relation.LOCAL or (style == "streamed" and estimator.in_memory):
        pytest.skip("takes no stream, or records nothing of several populations")
    rng, n = np.random.default_rng(3), 400 if "epsilon" in estimator.example else 40
    params = build_params(estimator, keywords(estimator, calibration))
    X, y, own = table_for(estimator, n, rng)
    mask = mask_of(rng, own, with_own=False)
    samples = (sample_of(estimator, *replaced(X, y, own, rng), style, mask) for _ in range(2))
    try:
        runs = [recorded(estimator, params, sample)[0] for sample in samples]
    except StreamRefused:
        pytest.skip("takes no stream with a mask")
    assert runs[0].releases
    for one, other in zip(*(run.releases for run in runs), strict=True):
        np.testing.assert_allclose(one.value, other.value, rtol=1e-9, atol=1e-9 * np.abs(one.value).max())
