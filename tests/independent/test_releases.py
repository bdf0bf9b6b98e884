"""Random configurations of ``dpcost release``: refused in one sentence, or charged what is printed."""

import json
import math
import random

import numpy as np
import pandas as pd
import pytest

import dpalgos
import tasks.release.release
from data.ledger import open_ledger
from tasks.release.faults import is_bound
from tests.independent.accountant import epsilon_of_rho, rho_of

RESERVED = ("epsilon", "delta", "calibration", "rng", "replicates", "row_mask")
CENTRAL = [e.name for e in dpalgos.catalog() if e.private and e.privacy_model == "central"]
NAMES = (*(estimator.name for estimator in dpalgos.catalog()), "dp_men", "", "mean")
COLUMNS = ("age", "weight", "height", "sick", "id")


class Configurations:
    """Estimators, columns, bounds, settings and budgets: mostly near what would be answered."""

    def __init__(self, seed):
        self.chance = random.Random(seed)

    def number(self):
        plain = (0.5, 1, 2, 3.0, 7, 1e-3, 100.0)
        odd = (0, -1, 0.0, -0.5, 1e-30, 1e30, 1e-31, 1e-170, 5e-324, 1e300)
        odd += (10**30, 10**400, math.inf, math.nan)
        return self.chance.choice(plain if self.chance.random() < 0.7 else odd)

    def value(self):
        other = ("auto", "james_stein", "logistic", "", True, [], [1.0], {"a": 1}, [2.0, 1.0], [[1.0]], "1.0")
        one, two, *pair = (self.number() for _ in range(4))
        return self.chance.choice((one, two, sorted(pair), self.chance.choice(other)))

    def settings(self, name):
        """Return [bounds] and [params], from an example that a few random changes spoil or not."""
        try:
            estimator = self.chance.choice(dpalgos.get_estimator(name).variants)
            known = [item["name"] for item in dpalgos.params.describe_keywords(estimator.parameters)]
            chosen = {key: value for key, value in estimator.example.items() if value is not None}
        except dpalgos.InputError:
            known, chosen = ["value_bound"], {"value_bound": 1.0}
        tables = {"bounds": {key: value for key, value in chosen.items() if is_bound(key)}}
        tables["params"] = {key: value for key, value in chosen.items() if not is_bound(key)}
        for _ in range(self.chance.choice((0, 0, 0, 1, 1, 2))):
            table = tables[self.chance.choice(("bounds", "params"))]
            key = self.chance.choice((*known, *known, *RESERVED, "no_such", "value_bound"))
            if self.chance.random() < 0.2:
                table.pop(key, None)
            else:
                table[key] = self.value()
        return tables

    def columns(self, name):
        chance = self.chance
        chosen = chance.sample(COLUMNS[:3], chance.choice((2, 2, 3)))
        if chance.random() < 0.1:
            chosen = chance.choice(([], ["age", "age"], ["nothing"], "age", 3, [1], ["id"]))
        lines = [f"x = {toml(chosen)}"]
        private = {estimator.name: estimator for estimator in dpalgos.catalog()}.get(name)
        wants = private is not None and private.task != "mean"
        if wants != (chance.random() < 0.05):
            odd = chance.random() < 0.1
            lines.append(f"y = {toml(chance.choice(('height', 'nothing', 3)) if odd else 'sick')}")
        if (private is not None and private.unit_of_privacy == "user") != (chance.random() < 0.05):
            lines.append('user_id = "id"')
        return "\n".join(lines)

    def budget(self):
        epsilon = self.chance.choice((0.5, 0.1, 1.0, 2.0, round(self.chance.uniform(0.01, 3), 4)))
        delta = self.chance.choice((1e-6, 1e-5, 1e-4, 10 ** self.chance.uniform(-12, -3)))
        if self.chance.random() < 0.1:
            epsilon = self.chance.choice((0, -1, "nan", "inf", 1e-300, 1e-9, 1e300, 1e4, "one", 50))
        if self.chance.random() < 0.1:
            delta = self.chance.choice((0, 1, -1e-6, "nan", 1e-320, 0.5, 1e-60, "small"))
        return epsilon, delta

    def text(self, name):
        body = ""
        for table, content in self.settings(name).items():
            body += f"[{table}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in content.items())
        columns = self.columns(name)
        dataset = "users" if "user_id" in columns else "rows"  # a budget protects one unit
        return f'[dataset]\nname = "{dataset}"\n[columns]\n{columns}\n{body}'


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    return json.dumps(value, default=np.ndarray.tolist).replace("Infinity", "inf").replace("NaN", "nan")


@pytest.fixture
def ask(command_line, tmp_path, monkeypatch):
    """Return a function that asks for a release: exit status, printed JSON or None, errors, events drawn."""
    rng = np.random.default_rng(0)
    drawn, real = [], tasks.release.release.draw_release

    def watched(plan, sample):
        made = real(plan, sample)
        drawn.append(made.events)
        return made

    monkeypatch.setattr(tasks.release.release, "draw_release", watched)
    for name in ("rows", "users"):
        table = pd.DataFrame(rng.uniform(0, 1, (120, 3)), columns=COLUMNS[:3])
        table = table.assign(sick=rng.integers(0, 2, 120), id=np.arange(120) // 4)
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        assert command_line("ledger", "open", name, "--epsilon", 1e6, "--delta", 0.1)[0] == 0

    def release(name, text, epsilon, delta):
        (tmp_path / "release.toml").write_text(text)
        drawn.clear()
        data = tmp_path / ("users.csv" if 'name = "users"' in text else "rows.csv")
        options = ["--data", data, "--config", tmp_path / "release.toml"]
        budget = [f"--epsilon={epsilon}", f"--delta={delta}"]
        status, out, err = command_line("release", name, *options, *budget, "--json")
        return status, json.loads(out) if status == 0 else out, err, list(drawn)

    return release


def try_configurations(ask, home, seeds):
    answered, refused, seen = 0, 0, {}
    for seed in seeds:
        random_one = Configurations(seed)
        name = random_one.chance.choice(CENTRAL if random_one.chance.random() < 0.85 else NAMES)
        text, (epsilon, delta) = random_one.text(name), random_one.budget()
        case = (seed, name, text, epsilon, delta)
        charges_before = len(seen)
        status, out, err, drawn = ask(name, text, epsilon, delta)
        if status:
            assert status == 2, (case, err, [log.read_text()[-2000:] for log in home.glob("faults.log")])
            sentences = [line for line in err.splitlines() if not line.startswith("note: ")]
            assert len(sentences) == 1, (case, err)
            assert sentences[0].startswith("dpcost: "), (case, err)
            assert not out, case
            refused += 1
        else:
            answered += 1
            promise = out["deployment"]["privacy_loss"]["privacy_parameters"]
            assert (promise["epsilon"], promise["delta"]) == (epsilon, delta), case
            ledger = out["release"]["ledger"]
            assert ledger["replayed"] == (not drawn), case
            if drawn:
                seen[ledger["charge"]] = rho_of(drawn[0])
                rho, pure, failure = seen[ledger["charge"]]
                spent = min(pure, epsilon_of_rho(rho, delta - failure))
                assert spent <= epsilon * (1 + 1e-9), (case, spent)
        if status or ledger["replayed"]:
            assert len(seen) == charges_before
    charges = [each for name in ("rows", "users") for each in open_ledger(home).account(name).charges]
    # Nothing refused was charged, and nothing shown was not.
    assert {charge.id for charge in charges} == set(seen)
    for charge in charges:
        rho, pure, failure = seen[charge.id]
        assert (charge.cost.rho, charge.cost.failure) == pytest.approx((rho, failure))
        assert charge.cost.pure_epsilon == pytest.approx(pure)
    return answered, refused


BATCHES = [
    pytest.param(range(s, s + 1000), marks=pytest.mark.slow, id=f"from {s}") for s in range(60, 10_000, 1000)
]


@pytest.mark.parametrize("seeds", [pytest.param(range(60), id="few"), *BATCHES])
def test_random_configurations_are_refused_or_charged_what_they_print(ask, home, seeds):
    answered, refused = try_configurations(ask, home, seeds)
    print(f"{answered} answered and charged, {refused} refused")
    assert min(answered, refused) > len(seeds) / 8
