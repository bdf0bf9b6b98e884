"""The ways to keep dpcost running that no engine is there to try: they name what exists, and fit together."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[3]
COMPOSE = yaml.safe_load((PROJECT / "compose.yaml").read_bytes())
SERVICES = COMPOSE["services"]
UNITS = sorted((PROJECT / "docs" / "systemd").glob("*.service"))

# Of the Compose specification, what may stand in a service here; a misspelt key is refused.
KEYS = {"build", "image", "restart", "init", "volumes", "environment", "healthcheck", "command", "ports"}
KEYS |= {"depends_on", "stop_signal", "stop_grace_period", "read_only", "cap_drop", "security_opt", "tmpfs"}


def test_nothing_is_reached_from_other_machines_and_no_password_is_written_down():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:4200:4200"]
    text = (PROJECT / "compose.yaml").read_text()
    secrets = re.findall(r"(?:PASSWORD|AUTH_STRING|URL): (?:.*[:/])?\$\{(\w+):\?", text)
    assert {"POSTGRES_PASSWORD", "DPCOST_PASSWORD"} <= set(secrets)
    assert all("${" in line for line in text.splitlines() if re.search(r"(PASSWORD|AUTH_STRING): ", line))


def options_are_known(words):
    module, *options = words
    source = PROJECT.joinpath(*module.split(".")).with_suffix(".py").read_text()
    return all(f'"{option.partition("=")[0]}"' in source for option in options)


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_a_unit_starts_what_exists_and_ends_it_whole(unit):
    settings = dict(line.split("=", 1) for line in unit.read_text().splitlines() if re.match(r"\w+=", line))
    program, _, *words = shlex.split(settings["ExecStart"])
    assert program == "%h/dpcost/.venv/bin/python"
    assert options_are_known(words)
    assert settings["KillSignal"] == "SIGINT"
    assert "KillMode" not in settings  # the default ends the whole control group
    assert (settings["UMask"], settings["ProtectSystem"]) == ("0077", "strict")
