"""What a release refuses before it charges: by which exception, and naming which argument and value."""

import numpy as np
import pandas as pd
import pytest

from data.errors import DataError, LedgerError
from data.ledger import open_ledger
from dpalgos import InputError
from tasks.errors import SpecError
from tests.tasks.analyst_tables import release

SECRET = 987654.321
REGRESSION = {"y": 'y = "cost"', "bounds": "covariate_bound = 1.0\nresponse_bound = 1.0"}
CONFIG = """
[dataset]
name = "{name}"
[columns]
x = {x}
{y}
[bounds]
{bounds}
[params]
{params}
"""


@pytest.fixture
def ask(home, tmp_path):
    open_ledger(home).open_dataset("people", 1.0, 1e-5)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(-1, 1, (400, 3)), columns=["age", "weight", "cost"])
    table.loc[0, "cost"] = SECRET
    table.to_csv(tmp_path / "people.csv", index=False)

    def asked(estimator="dp_mean", file="people.csv", epsilon=0.5, delta=1e-6, interval=None, **parts):
        usual = {"name": "people", "x": '["age", "weight"]', "y": "", "params": ""}
        (tmp_path / "release.toml").write_text(
            CONFIG.format(**{**usual, "bounds": "value_bound = 1.0", **parts})
        )
        options = {"epsilon": epsilon, "delta": delta, "interval": interval}
        return release(open_ledger(home), estimator, tmp_path / file, tmp_path / "release.toml", **options)

    return asked


@pytest.mark.parametrize(
    ("asked", "exception", "argument", "value"),
    [
        ({"bounds": ""}, InputError, "value_bound", "none"),
        ({"bounds": 'value_bound = "auto"'}, InputError, "value_bound", "'auto'"),
        ({"bounds": "value_bound = true"}, InputError, "value_bound", "True"),
        ({"bounds": "value_bound = [2.0, 1.0]"}, InputError, "value_bound", "(2.0, 1.0)"),
        ({"bounds": "value_bound = -1.0"}, InputError, "value_bound", "-1"),
        ({"bounds": "", "params": "value_bound = 1.0"}, SpecError, "params.value_bound", "[bounds]"),
        ({"params": "shrinkag = 1"}, InputError, "shrinkag", "'shrinkage'"),
        ({"params": "epsilon = 0.9"}, InputError, "params.epsilon", "0.9"),
        ({"params": "delta = 1e-3"}, InputError, "params.delta", "0.001"),
        ({"bounds": "value_bound = 1.0\nepsilon = 0.9"}, InputError, "bounds.epsilon", "0.9"),
        ({"params": 'calibration = "tight"'}, InputError, "params.calibration", "'tight'"),
        ({"params": 'reuse = "ledger"'}, InputError, "keyword", "'reuse'"),
        ({"params": "public_X = 1"}, SpecError, "params.public_X", '"sample"'),
        ({"params": "interval = 0.9", "interval": 0.95}, SpecError, "params.interval", "0.9"),
        ({"interval": 95}, InputError, "interval", "95"),
        ({"interval": float("nan")}, InputError, "interval", "nan"),
        ({"x": "[]"}, SpecError, "columns.x", "[]"),
        ({"x": '["age", "age"]'}, SpecError, "columns", "'age'"),
        ({"x": '["height"]'}, DataError, "column", "'height'"),
        ({"y": 'y = "cost"'}, InputError, "columns.y", "dp_mean"),
        ({"y": 'user_id = "cost"'}, InputError, "columns.user_id", "dp_mean"),
        ({**REGRESSION, "y": "", "estimator": "adassp"}, InputError, "columns.y", "adassp"),
        ({**REGRESSION, "y": 'y = "age"', "estimator": "adassp"}, SpecError, "columns", "'age'"),
        (
            {
                "estimator": "dp_glm",
                "y": 'y = "cost"',
                "bounds": "covariate_bound = 1.0",
                "params": 'family = "logistic"',
            },
            InputError,
            "y",
            "'logistic'",
        ),
        ({"estimator": "ols"}, InputError, "estimator", "'ols'"),
        ({"estimator": "dp_men"}, InputError, "estimator", "'dp_mean'"),
        ({"estimator": "ldp_nldp", **REGRESSION}, InputError, "ldp_nldp", "device"),
        ({"name": "nobody"}, LedgerError, "dataset", "'nobody'"),
        ({"name": "?"}, SpecError, "name", "?"),
        ({"file": "absent.csv"}, DataError, "absent.csv", "file"),
        ({"file": "release.toml"}, DataError, "release.toml", "'.toml'"),
        ({"epsilon": 0}, InputError, "epsilon", "0"),
        ({"epsilon": float("inf")}, InputError, "epsilon", "inf"),
        ({"epsilon": 2.0}, LedgerError, "epsilon", "2"),
        ({"delta": 1.0}, InputError, "delta", "1"),
        ({"delta": 0.0}, InputError, "delta", "0"),
    ],
)
def test_a_refused_request_costs_nothing_and_shows_no_value_of_the_rows(
    ask, home, asked, exception, argument, value
):
    with pytest.raises(exception) as refused:
        ask(**asked)
    assert argument in str(refused.value)
    assert value in str(refused.value)
    assert "\n" not in str(refused.value)
    assert str(SECRET) not in str(refused.value)
    assert open_ledger(home).account("people").charges == []
