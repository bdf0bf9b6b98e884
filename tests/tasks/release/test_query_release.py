"""``dpcost release`` of a query to a database: the same data, budget and answer as of a file."""

import decimal
import json
import sqlite3
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.errors import DataError, LedgerError
from data.formats.canonical import CanonicalBatch
from data.ledger.content import Fingerprinter
from data.tables.queries import confirm
from data.tables.reading import opened_table
from data.tables.schema import table_schema
from data.tables.sources import source_of as source_written
from tasks.errors import SpecError
from tasks.release.request import read_request
from tasks.release.rows import read_rows
from tasks.study.own_data import checked_data
from tests.builders import refused
from tests.own_processes import private_postgres
from tests.tasks.analyst_tables import completed, edited, init_study, numbers_of

duckdb = pytest.importorskip("duckdb")

LEVELS = ["north", "south", "west"]


def source_of(address, folder=Path()):
    """Return the source of an address that a person has confirmed."""
    source = source_written(address, folder)
    confirm(source)
    return source


def visits(n=3000):
    """Numbers, decimals, dates, texts, truth values and gaps, as a database has them."""
    rng = np.random.default_rng(5)
    age = rng.normal(50, 20, n).round(1)
    age[::97] = np.nan
    cost = [decimal.Decimal(int(each)) / 4 for each in rng.integers(0, 32_000, n)]
    days = [date(2020, 1, 1 + k % 28) for k in range(n)]
    return pd.DataFrame(
        {
            "age": age,
            "cost": cost,
            "day": days,
            "region": rng.choice(LEVELS, n),
            "smoker": rng.random(n) < 0.3,
            "person": rng.integers(0, 400, n),
            "visit": np.arange(n),
        }
    )


def in_sqlite(table, file):
    plain = table.assign(cost=table["cost"].astype(float), day=table["day"].astype(str))
    connection = sqlite3.connect(file)
    plain.to_sql("visits", connection, index=False)
    connection.close()


def in_duckdb(table, file):
    with duckdb.connect(str(file)) as connection:
        connection.register("rows", table)
        connection.execute("CREATE TABLE visits AS SELECT * FROM rows")


def in_postgresql(table, address):
    psycopg = pytest.importorskip("psycopg")
    kinds = (
        "age float8, cost numeric(12,2), day date, region text, smoker boolean, person bigint, visit bigint"
    )
    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE visits ({kinds})")
        with cursor.copy("COPY visits FROM STDIN") as copy:
            for row in table.itertuples(index=False):
                copy.write_row([None if each != each else each for each in row])
        cursor.execute("CREATE ROLE reader LOGIN")
        cursor.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("adbc_driver_postgresql")
    with private_postgres() as address:
        in_postgresql(visits(), address)
        yield address.replace("dpcost@", "reader@")


@pytest.fixture(autouse=True)
def own_home(home):
    return home


@pytest.fixture
def places(tmp_path):
    in_duckdb(visits(), tmp_path / "v.duckdb")
    in_sqlite(visits(), tmp_path / "v.sqlite")
    visits().to_csv(tmp_path / "v.csv", index=False)
    visits().to_parquet(tmp_path / "v.parquet", index=False)
    return tmp_path


ALL = "?query=SELECT * FROM visits"


def fingerprint(source):
    reader = Fingerprinter(b"key")
    with opened_table(source) as (_, batches):
        for batch in batches:
            reader.add(CanonicalBatch(batch))
    return reader.fingerprint()


@pytest.fixture
def study(home, places):
    init_study("mine", places / "v.csv", folder=places, response="cost")
    limits = {"age": (18, 90), "cost": (0, 8000), "person": (0, 400), "visit": (0, 3000)}
    file = places / "mine.toml"
    head, *blocks = file.read_text().split("[[data.columns]]\n")
    unused = 'name = "day"', 'name = "smoker"'  # SQLite has no truth values
    file.write_text(
        "[[data.columns]]\n".join([head, *(each for each in blocks if not each.startswith(unused))])
    )
    completed(file, limits, {"region": LEVELS})
    edited(file, 'outside = "refuse"', 'outside = "clip"')
    edited(file, 'missing = "refuse"', 'missing = "drop"')
    return file


def test_a_query_is_the_same_data_as_a_file(places, server):
    one = fingerprint(places / "v.parquet")
    assert fingerprint(places / "v.csv") == one
    for address in (f"duckdb:v.duckdb{ALL}", f"sqlite:v.sqlite{ALL}", f"{server}{ALL}"):
        assert fingerprint(source_of(address, places)) == one, address


def test_a_released_question_is_replayed_from_a_database(command_line, study, places, server):
    command_line("ledger", "open", "mine", "--epsilon", 20, "--delta", 1e-5)
    release = places / "mine-release.toml"
    words = ["--config", release, "--epsilon", 5, "--delta", 1e-6, "--interval", 0.95, "--json", "--yes"]

    def ask(data):
        status, out, err = command_line("release", "preconditioned_regression", "--data", data, *words)
        assert status == 0, err
        return json.loads(out)

    first = ask(places / "v.csv")
    for address in (f"duckdb:{places}/v.duckdb{ALL}", f"sqlite:{places}/v.sqlite{ALL}", f"{server}{ALL}"):
        again = ask(address)
        assert again["release"]["ledger"]["replayed"]
        assert numbers_of(again) == numbers_of(first)


def test_a_study_file_names_a_query_and_users_need_an_order(command_line, home, places):
    columns = "SELECT coalesce(age, 50) AS age, cost, region, person, visit FROM visits"
    for query in (columns, f"{columns} ORDER BY person, visit", f"SELECT * FROM ({columns} ORDER BY visit)"):
        init_study(
            "own",
            f"duckdb:v.duckdb?query={query}",
            folder=places,
            response="cost",
            user_id="person",
            force=True,
        )
        completed(
            places / "own.toml", {"age": (18, 90), "cost": (0, 8000), "visit": (0, 3000)}, {"region": LEVELS}
        )
        edited(places / "own.toml", 'outside = "refuse"', 'outside = "clip"')
        own, faults = checked_data(places / "own.toml")
        assert not faults
        assert str(own.data.source) == "the query to v.duckdb"
        request = read_request(
            places / "own-release.toml", "preconditioned_regression", epsilon=5.0, delta=1e-6
        )
        if query.endswith("visit"):
            assert read_rows(Fingerprinter(b"key"), own.data.source, request).n_users.tolist() == [400]
        else:
            refused(
                lambda q=own.data.source, r=request: read_rows(Fingerprinter(b"key"), q, r),
                SpecError,
                "ORDER BY",
            )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 AS a; DROP TABLE visits",
        "DELETE FROM visits RETURNING *",
        "INSERT INTO visits SELECT * FROM visits RETURNING *",
        "UPDATE visits SET age = 1 RETURNING *",
        "CREATE TABLE other AS SELECT * FROM visits",
        "WITH gone AS (DELETE FROM visits RETURNING *) SELECT * FROM gone",
        "COPY visits TO '/tmp/copy.csv'",
        "ATTACH ':memory:' AS other",
        "PRAGMA query_only = OFF",
        "COMMIT",
        "",
        "SELECT age FROM nowhere",
        "SELECT CAST('north of here' AS integer) AS age FROM visits WHERE 1/0 = CAST('x' AS integer)",
        "SELECT age, age FROM visits",
        "SELECT set_config('transaction_read_only', 'off', false)",
    ],
)
def test_a_query_changes_nothing_and_no_message_quotes_a_cell(places, server, query):
    for address in (
        f"duckdb:v.duckdb?query={query}",
        f"sqlite:v.sqlite?query={query}",
        f"{server}?query={query}",
    ):
        try:
            fingerprint(source_of(address, places))
        except (DataError, LedgerError) as error:
            said = str(error)
        else:  # SQLite takes text for a number; a function may be unknown to one of them
            assert query.startswith("SELECT CAST"), address
        assert "north" not in said
    for address in (f"duckdb:v.duckdb{ALL}", f"sqlite:v.sqlite{ALL}", f"{server}{ALL}"):
        assert fingerprint(source_of(address, places)) == fingerprint(places / "v.parquet")


def test_what_a_query_may_hold(places):
    text = "SELECT * FROM visits WHERE region <> 'a;b' -- ; a comment"
    assert fingerprint(source_of(f"duckdb:v.duckdb?query={text}", places))
    assert fingerprint(source_of(f"sqlite:v.sqlite?query={text}", places))
    for kind in ("INTERVAL 1 DAY", "[1, 2]", "{'a': 1}"):
        odd = source_of(f"duckdb:v.duckdb?query=SELECT age, {kind} AS odd FROM visits", places)
        refused(lambda odd=odd: table_schema(odd), DataError, "'odd'", "AS odd")
    mixed = "SELECT CASE WHEN visit = 3 THEN 'x' WHEN visit = 4 THEN 2.5 ELSE visit END AS m FROM visits"
    assert table_schema(source_of(f"sqlite:v.sqlite?query={mixed}", places)).types == {"m": "text"}


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("postgresql://me:secret@host/db?query=SELECT 1", "PGPASSWORD"),
        ("postgresql://host/db?password=secret&query=SELECT 1", "must be"),
        ("duckdb:?query=SELECT 1", "must name a file"),
        ("duckdb:file.duckdb", "must be duckdb:FILE"),
        ("mysql://host/db?query=SELECT 1", "must be duckdb:FILE"),
        ("sqlite:file?query= ", "must not be empty"),
        ("sqlite:none.sqlite?query=SELECT 1", "is not a file"),
        ("duckdb:none.duckdb?query=SELECT 1", "is not a file"),
        ("postgresql://nobody@127.0.0.1:1/db?query=SELECT 1", "cannot be run"),
    ],
)
def test_an_address_is_refused_without_its_password(tmp_path, address, named):
    refused(lambda: fingerprint(source_of(address, tmp_path)), DataError, named, hidden=["secret"])


def test_a_server_that_goes_away_ends_the_reading(places):
    pytest.importorskip("adbc_driver_postgresql")
    psycopg = pytest.importorskip("psycopg")
    with private_postgres() as address:
        many = "SELECT k AS a, repeat('x', 500) AS b FROM generate_series(1, 2000000) AS s(k)"
        with psycopg.connect(address) as connection:
            connection.execute("CREATE ROLE reader LOGIN")
        reader = address.replace("dpcost@", "reader@")
        with opened_table(source_of(f"{reader}?query={many}")) as (_, batches):
            next(batches)
            with psycopg.connect(address, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                )
            refused(lambda: list(batches), DataError, "broken off")


def test_each_release_reads_a_view_of_random_numbers_once(command_line, home, places):
    with duckdb.connect(str(places / "v.duckdb")) as connection:
        connection.execute("CREATE VIEW odd AS SELECT random() AS a FROM visits")
    (places / "odd.toml").write_text(
        '[dataset]\nname = "odd"\n[columns]\nx = ["a"]\n[bounds]\nvalue_bound = 1.0\n'
    )
    command_line("ledger", "open", "odd", "--epsilon", 2, "--delta", 1e-5)
    words = ["--data", f"duckdb:{places}/v.duckdb?query=SELECT * FROM odd", "--config", places / "odd.toml"]
    ask = ["release", "dp_mean", *words, "--epsilon", 1, "--delta", 1e-6]
    assert command_line(*ask)[0] == 0
    status, _, said = command_line(*ask)
    assert (status, "are not those" in said) == (2, True)
