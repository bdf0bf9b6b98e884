"""Tables of measured errors on tables that were not used in development."""

import importlib
import sys

from data.store.folders import PROJECT_ROOT

sys.path.insert(0, str(PROJECT_ROOT / "docs"))
evidence = importlib.import_module("generate.evidence")


def test_a_table_of_persons_has_a_row_for_each_table_and_epsilon():
    parts = {"error": "3.1", "known": "80%", "half-width": "9.4", "contains": "95%"}
    of_both = {f"unseen_people/churn/{e}/{part}": text for e in ("1", "3") for part, text in parts.items()}
    values = {"unseen_people/churn/table": "modeldata wa_churn", "unseen/corn/table": "corn", **of_both}
    lines = evidence.unseen_people(values).splitlines()
    assert lines[2:] == [
        "| modeldata wa_churn | 1 | 3.1 | 80% | 9.4 | 95% |",
        "|  | 3 | 3.1 | 80% | 9.4 | 95% |",
    ]
    assert evidence.unseen_people({"unseen/corn/table": "corn"}) == "Not measured yet.\n"
