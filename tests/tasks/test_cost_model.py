"""What blocks will take, from short runs of them."""

import json

from tests.tasks.blocks import small_means


def test_a_plan_from_the_command_line(tmp_path, command_line):
    study = small_means(tmp_path)

    def call(*words):
        return command_line("plan", study, *words)

    status, out, err = call("--profile", "smoke", "--workers", "2", "--json")
    assert status == 0, err
    found = json.loads(out)
    assert found["seconds"] <= found["core_seconds"]
    assert found["panels"][0]["core_seconds"] > 0
    status, out, _ = call("--profile", "smoke")
    assert "means at profile smoke: " in out
    assert "  low-dimensional: " in out
    status, _, err = call("--profile", "smokey")
    assert status == 2
    assert "did you mean 'smoke'?" in err
