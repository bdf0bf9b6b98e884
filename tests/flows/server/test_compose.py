"""The ways to keep dpcost running that no engine is there to try: they name what exists, and fit together."""

import re
import shlex
import tomllib
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


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_says_what_compose_knows(name):
    service = SERVICES[name]
    assert set(service) <= KEYS
    assert "build" in service or ":" in service["image"]
    for other, how in service.get("depends_on", {}).items():
        assert how == {"condition": "service_healthy"}
        assert "healthcheck" in SERVICES[other]
    for volume in service["volumes"]:
        assert re.sub(r"\$\{\w+:-(\w+)\}", r"\1", volume).partition(":")[0] in COMPOSE["volumes"]
    assert all(isinstance(value, str | None) for value in service.get("environment", {}).values())


def test_nothing_is_reached_from_other_machines_and_no_password_is_written_down():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:4200:4200"]
    text = (PROJECT / "compose.yaml").read_text()
    secrets = re.findall(r"(?:PASSWORD|AUTH_STRING|URL): (?:.*[:/])?\$\{(\w+):\?", text)
    assert {"POSTGRES_PASSWORD", "DPCOST_PASSWORD"} <= set(secrets)
    assert all("${" in line for line in text.splitlines() if re.search(r"(PASSWORD|AUTH_STRING): ", line))


def test_a_folder_of_raw_files_is_mounted_where_the_server_looks_for_it():
    server = SERVICES["dpcost"]
    mounted = next(each for each in server["volumes"] if "DPCOST_MIRROR_FOLDER" in each)
    target = mounted.removesuffix(":ro").rpartition(":")[2]
    assert (mounted.endswith(":ro"), target in server["environment"]["DPCOST_DATA_MIRROR"]) == (True, True)


def test_the_server_reaches_its_database_and_may_do_little_else():
    server = SERVICES["dpcost"]
    given = server["environment"]
    assert {"DPCOST_STORE", "DPCOST_LEDGER_URL", "DPCOST_DATA_MIRROR", "AWS_ENDPOINT_URL"} <= set(given)
    assert given["PREFECT_SERVER_API_AUTH_STRING"].startswith("dpcost:")
    user, _, name = given["PREFECT_API_DATABASE_CONNECTION_URL"].rpartition("@postgres:5432/")
    database = SERVICES["postgres"]["environment"]
    assert name == database["POSTGRES_DB"]
    assert user.startswith(f"postgresql+asyncpg://{database['POSTGRES_USER']}:")
    assert (server["read_only"], server["cap_drop"], server["stop_signal"]) == (True, ["ALL"], "SIGINT")


def options_are_known(words):
    module, *options = words
    source = PROJECT.joinpath(*module.split(".")).with_suffix(".py").read_text()
    return all(f'"{option.partition("=")[0]}"' in source for option in options)


def test_a_command_is_one_of_the_project_and_takes_its_options():
    assert options_are_known(SERVICES["dpcost"]["command"][2:])


def test_the_image_holds_what_the_package_needs():
    text = (PROJECT / "Dockerfile").read_text()
    copied = set(re.findall(r"^COPY (.*) \S+$", text, flags=re.M))
    names = {name for line in copied for name in line.split()}
    packages = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "root_packages"
    ]
    assert {*packages, "pyproject.toml", "constraints.txt"} <= names
    assert all((PROJECT / name).exists() for name in names)
    assert "USER dpcost" in text
    assert {"dask", "postgres", "s3"} <= set(re.findall(r"\w+", re.search(r"\.\[(.*)\]", text)[1]))


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_a_unit_starts_what_exists_and_ends_it_whole(unit):
    settings = dict(line.split("=", 1) for line in unit.read_text().splitlines() if re.match(r"\w+=", line))
    program, _, *words = shlex.split(settings["ExecStart"])
    assert program == "%h/dpcost/.venv/bin/python"
    assert options_are_known(words)
    assert settings["KillSignal"] == "SIGINT"
    assert "KillMode" not in settings  # the default ends the whole control group
    assert (settings["UMask"], settings["ProtectSystem"]) == ("0077", "strict")
