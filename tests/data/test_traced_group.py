"""Genotypes of one group for tracing."""

import numpy as np
import pandas as pd
import pytest

from data.errors import DataError
from data.fetch.genotypes import NO_GROUP, Genotypes
from data.formats.cohort import MISSING
from data.prepare.traced_group import traced_group


def genotypes(calls, group):
    n, d = calls.shape
    return Genotypes(
        calls=calls.astype(np.int8),
        people=np.array([f"p{i}" for i in range(n)]),
        labels=np.array(["x"] * n),
        group=np.array(group, dtype=np.int8),
        missing=(calls == MISSING).sum(axis=1),
        n_snps_stored=d,
        group_names=("first", "second"),
        snps=pd.DataFrame({"snp": [f"rs{j}" for j in range(d)]}),
    )


CALLS = np.array([[0, 1, 2], [2, MISSING, 0], [1, 1, 1], [2, 2, 0], [2, 0, MISSING]])


def test_the_first_group_is_centered_and_the_panel_is_who_is_in_neither():
    group = traced_group(genotypes(CALLS, [0, 0, 1, NO_GROUP, NO_GROUP]))
    assert group.X.tolist() == [[-1, 0, 1], [1, 0, -1]]
    assert group.panel_mean.tolist() == [1.0, 0.0, -0.5]
    assert group.panel_std == pytest.approx([0.0, np.sqrt(0.5), np.sqrt(0.375)])


@pytest.mark.parametrize(
    ("group", "said"),
    [([1, 1, 1, NO_GROUP, NO_GROUP], "in the group 'first'"), ([0, 0, 1, 1, 1], "outside the groups")],
)
def test_somebody_must_be_there(group, said):
    with pytest.raises(DataError, match=said):
        traced_group(genotypes(CALLS, group))
