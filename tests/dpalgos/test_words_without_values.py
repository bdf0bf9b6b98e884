"""No message, warning or chained exception of the scikit-learn classes quotes a cell or a label."""

import datetime
import decimal
import traceback
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import dpalgos
import dpalgos.sklearn
from dpalgos import InputError, PrivacyWarning
from dpalgos.sklearn import DPLogisticRegression, DPMultinomialRegression, PublicScaler
from tests.dpalgos.test_sklearn_guards import MODEL, SETTINGS, responses, table

SECRETS = ("zebra", "7351", "73,51")
N = 12


def filled(first, kind=object):
    X = np.full((N, 3), 0.5).astype(kind)
    X[0, 0] = first
    return X


def cells():
    """Yield name → rows (n, 3) with a secret that cannot be read as they are."""
    yield "text", filled("zebra")
    yield "text array", filled("zebra", "U9")
    yield "bytes", filled("zebra", "S9")
    yield "comma", filled("73,51")
    yield "complex", filled(7351 + 1j, complex)
    yield "complex object", filled(7351 + 1j)
    yield "dictionary", filled({"zebra": 7351})
    yield "list in a cell", filled(["zebra"])
    yield "date", filled(np.datetime64("7351-01-01"), "M8[D]")
    yield "date object", filled(datetime.date(7351, 1, 1))
    yield "duration", filled(np.timedelta64(7351, "D"), "m8[D]")
    yield "huge", filled(10**400 + 7351)
    yield "decimal", filled(decimal.Decimal("sNaN7351"))
    yield "infinite", filled(np.inf, float) * 7351
    yield "missing", filled(np.nan, float) * 7351
    yield "one dimension", np.full(N, 7351.0)
    yield "no dimension", 7351.0
    yield "three dimensions", np.full((N, 3, 2), 7351.0)
    yield "ragged", [[7351.0] * (2 + i % 2) for i in range(N)]
    yield "nested", [["zebra", 7351, 0.5]] * N
    yield "sparse", scipy.sparse.csr_matrix(np.full((N, 3), 7351.0))
    yield "sparse array", scipy.sparse.coo_array(np.full((N, 3), 7351.0))
    yield "masked", np.ma.masked_equal(np.full((N, 3), 7351.0), 7351.0)
    yield "frame", pd.DataFrame(filled("zebra"), columns=list("abc"))
    yield "categories", pd.DataFrame({"a": pd.Categorical(["zebra"] * N), "b": 1.0, "c": 1.0})
    yield "nullable", pd.DataFrame({"a": pd.array([7351, None] * (N // 2), "Int64"), "b": 1.0, "c": 1.0})
    yield "arrow text", pd.DataFrame({"a": pd.array(["zebra"] * N, "string"), "b": 1.0, "c": 1.0})
    yield "other columns", pd.DataFrame({"a": [7351.0] * N})
    yield "fewer rows", np.full((2, 3), 7351.0)
    yield "wider", np.full((N, 4), 7351.0)
    yield "record", np.zeros(N, dtype=[("zebra", float), ("b", int)])
    yield "string", "zebra 7351"
    yield "rows by key", {"zebra": [7351.0] * N}
    yield "a set", {7351.0, "zebra"}
    yield "generator", (row for row in [["zebra"] * 3] * N)


CELLS = dict(cells())
COLUMNS = {
    name: rows[:, 0] if isinstance(rows, np.ndarray) and rows.ndim == 2 else rows
    for name, rows in CELLS.items()
}
COLUMNS |= {
    "mixed kinds": np.array(["zebra", 7351.0, None] * 4, dtype=object),
    "two columns": np.full((N, 2), 7351.0),
    "series": pd.Series(["zebra"] * N),
    "continuous": np.linspace(0.7351, 7351, N),
    "one label": np.full(N, "zebra"),
}


def said(call):
    """Return all that a call says: warnings, the exception with its chain, and its traceback."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
            words = []
        except Exception as error:
            words = traceback.format_exception(error)
            while error is not None:
                words += [str(error), repr(error)]
                error = error.__cause__ or error.__context__
    return "\n".join([*words, *(str(each.message) for each in caught)])


def assert_no_secret(call):
    words = said(call)
    assert not [secret for secret in SECRETS if secret in words], words


def model_of(name, **settings):
    return getattr(dpalgos.sklearn, name)(**MODEL, **SETTINGS.get(name, {}), **settings)


MODELS = [name for name in dpalgos.sklearn.__all__ if name.startswith("DP")]
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_a_fit_and_what_follows_quote_no_cell(name):
    X, y = table(N)
    good = responses(name, y)
    fitted = model_of(name).fit(
        *((table()[0],) if "Mean" in name else (table()[0], responses(name, table()[1])))
    )
    for rows in CELLS.values():
        assert_no_secret(lambda rows=rows: model_of(name).fit(rows, good))
        for method in METHODS:
            if hasattr(fitted, method):
                assert_no_secret(lambda rows=rows, method=method: getattr(fitted, method)(rows))
        if hasattr(fitted, "score"):
            assert_no_secret(lambda rows=rows: fitted.score(rows, good))
    if "Mean" in name:
        return
    for column in COLUMNS.values():
        assert_no_secret(lambda column=column: model_of(name).fit(X, column))
        assert_no_secret(lambda column=column: fitted.score(X, column))
        assert_no_secret(lambda column=column: fitted.score(X, good, sample_weight=column))


@pytest.mark.parametrize("cells", sorted({*CELLS} - {"other columns", "fewer rows", "wider"}))
def test_rows_that_are_no_numbers_are_refused(cells):
    with pytest.raises((ValueError, TypeError)):
        model_of("DPMean").fit(CELLS[cells])


def test_a_public_scaler_quotes_no_cell():
    scaler = PublicScaler(center=0.5, scale=2.0)
    scaler.fit(np.zeros((N, 3)))
    for rows in CELLS.values():
        for call in (
            PublicScaler().fit,
            PublicScaler().fit_transform,
            scaler.transform,
            scaler.inverse_transform,
        ):
            assert_no_secret(lambda rows=rows, call=call: call(rows))


def test_declared_levels_quote_no_cell():
    levels = {"a": [1.0, 2.0]}
    for name in ("DPLinearRegression", "DPMean", "DPLogisticRegression"):
        for rows in CELLS.values():
            assert_no_secret(lambda rows=rows, name=name: model_of(name, levels=levels).fit(rows, np.ones(N)))


@pytest.mark.parametrize("name", ["DPLogisticRegression", "DPMultinomialRegression"])
def test_labels_beyond_the_declared_classes_are_refused_unnamed(name):
    X, y = table(N)
    labels = np.where(y > 0, "yes", "zebra")
    assert_no_secret(lambda: model_of(name, classes=["no", "yes"]).fit(X, labels))
    for declared, occur in ((["no", "yes"], y > 0), ([0, 1], labels), ([0, 1], y), (["0", "1"], y > 0)):
        with pytest.raises((InputError, TypeError), match="y must hold"):
            model_of(name, classes=declared).fit(X, occur)


@pytest.mark.parametrize("kind", [DPLogisticRegression, DPMultinomialRegression])
def test_declared_classes_are_published_whatever_occurs(kind):
    X, y = table()
    labels = [np.full(len(y), "well"), np.where(np.arange(len(y)) == 3, "ill", "well")]
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        fits = [kind(**MODEL, classes=["well", "ill"]).fit(X, each) for each in labels]
    for fit in fits:
        assert list(fit.classes_) == ["ill", "well"]
        assert fit.coef_.shape == fits[0].coef_.shape
        assert "labels" in str(fit.summary())
        assert set(fit.predict(X)) <= {"ill", "well"}
    with pytest.warns(PrivacyWarning, match="classes="):
        kind(**MODEL).fit(X, labels[1])


def test_hidden_cells_are_refused():
    X, y = table()
    for hidden in (np.ma.masked_less(X, 0.0), np.ma.array(X, mask=X > 0.9)):
        with pytest.raises(ValueError, match="masked"):
            model_of("DPLinearRegression").fit(hidden, y)
    with pytest.raises(ValueError, match="masked"):
        model_of("DPLinearRegression").fit(X, np.ma.masked_less(y, 0.0))
    fitted, hidden = model_of("DPLinearRegression").fit(X, y), np.ma.masked_less(X, 0.0)
    for call in (fitted.predict, PublicScaler().fit, PublicScaler().fit(X).transform):
        with pytest.raises(ValueError, match="masked"):
            call(hidden)


@pytest.mark.parametrize("kind", [DPLogisticRegression, DPMultinomialRegression])
def test_a_score_takes_one_label_for_each_row(kind):
    X, y = table()
    fitted = kind(**MODEL, classes=[False, True]).fit(X, y > 0)
    assert 0 <= fitted.score(X, y > 0) <= 1
    with pytest.raises(InputError, match="shape"):
        fitted.score(X, (y > 0)[:, None])
