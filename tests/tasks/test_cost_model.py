"""What blocks will take, from short runs of them."""

import json

from tests.tasks.blocks import STEPS


def test_a_plan_from_the_command_line(command_line):
    status, out, err = command_line("plan", STEPS, "--profile", "smoke", "--workers", "2", "--json")
    assert status == 0, err
    found = json.loads(out)
    assert found["seconds"] <= found["core_seconds"]
    assert found["panels"][0]["core_seconds"] > 0
    status, out, _ = command_line("plan", STEPS, "--profile", "smoke")
    assert "  dense: " in out
