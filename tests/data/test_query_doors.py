"""A query changes nothing, whatever it says: each database refuses before anything runs."""

import decimal
import sqlite3

import pyarrow as pa
import pytest

from data.errors import DataError
from data.formats.canonical import canonical_cells
from data.tables.queries import confirm, is_confirmed
from data.tables.reading import opened_table
from data.tables.sources import source_of
from flows.confirm import confirm_query_of
from tests.builders import refused
from tests.own_processes import private_postgres

TABLE = "CREATE TABLE t (x float8, name text)"
ROWS = "INSERT INTO t VALUES (44.6, 'north of here'), (2, 'b')"


@pytest.fixture(autouse=True)
def own_home(home):
    return home


@pytest.fixture(scope="module")
def addresses():
    """The addresses of one server by role."""
    pytest.importorskip("adbc_driver_postgresql")
    psycopg = pytest.importorskip("psycopg")
    with private_postgres() as address:
        with psycopg.connect(address, autocommit=True) as connection:
            for each in (
                TABLE,
                ROWS,
                "CREATE TABLE paid (m money, a interval, l int[], b bit(3), n numeric, d date, t text)",
                "INSERT INTO paid VALUES (44.6, '1 day', '{1,2}', '101', 3.25, '2020-01-01', 'x')",
                "CREATE ROLE reader LOGIN",
                "CREATE ROLE files LOGIN IN ROLE pg_read_server_files, reader",
                "CREATE ROLE programs LOGIN NOINHERIT IN ROLE pg_execute_server_program, reader",
                "CREATE ROLE second LOGIN NOINHERIT IN ROLE dpcost, reader",
                "CREATE ROLE lister LOGIN IN ROLE reader",
                "GRANT EXECUTE ON FUNCTION pg_ls_dir(text) TO lister",
                "CREATE ROLE caller LOGIN IN ROLE reader",
                "CREATE FUNCTION copied() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS "
                "$$ BEGIN COPY t TO '/tmp/copied'; RETURN 1; END $$",
                "REVOKE EXECUTE ON FUNCTION copied FROM PUBLIC",
                "GRANT EXECUTE ON FUNCTION copied TO caller",
                "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
            ):
                connection.execute(each)
        yield {
            role: address.replace("dpcost@", f"{role}@")
            for role in ("dpcost", "reader", "files", "programs", "second", "lister", "caller")
        }


def rows_of(address, text, folder):
    source = source_of(f"{address}?query={text}", folder)
    confirm(source)
    with opened_table(source) as (names, batches):
        return names, [row for batch in batches for row in batch.to_pylist()]


def in_files(folder):
    with sqlite3.connect(folder / "t.sqlite") as connection:
        connection.execute(TABLE)
        connection.execute(ROWS)
    connection.close()
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.execute(TABLE.replace("float8", "DOUBLE"))
        connection.execute(ROWS)
    return ["sqlite:t.sqlite", "duckdb:t.duckdb"]


WRITES = [
    "COPY t TO PROGRAM 'id > {place}/new'",
    "COPY t TO '{place}/new'",
    "COPY (SELECT 1) TO '{place}/new'",
    "ATTACH '{place}/new' AS z",
    "VACUUM INTO '{place}/new'",
    "SELECT 1 AS x; COPY t TO '{place}/new'",
    "EXPORT DATABASE '{place}/new'",
    "SELECT lo_export(lo_from_bytea(0, 'x'), '{place}/new') AS x",
    "SELECT lo_import('/etc/passwd') AS x",
    "SELECT pg_read_file('/etc/passwd') AS x",
    "SELECT pg_ls_dir('/') AS x",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM glob('/*')",
    "SELECT load_extension('{place}/new') AS x",
    "SELECT nextval('s') AS x",
    "SELECT copied() AS x",
    "SELECT query_to_xml('COPY t TO ''{place}/new''', true, true, '') AS x",
    "SELECT 1 AS x INTO new",
    "WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone",
    "INSERT INTO t VALUES (1, 'a') RETURNING *",
    "DO $$ BEGIN COPY t TO '{place}/new'; END $$",
    "EXPLAIN ANALYZE DELETE FROM t",
    "SET ROLE dpcost",
    "PREPARE a AS SELECT 1",
    "CALL x()",
    "PRAGMA database_list",
    "REINDEX",
]


@pytest.mark.parametrize("text", WRITES)
def test_no_query_writes_or_reads_a_file(tmp_path, addresses, text):
    place = tmp_path / "place"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    tmp_path.chmod(0o755)
    databases = [*in_files(tmp_path), addresses["reader"], addresses["dpcost"]]
    before = {each.name for each in tmp_path.iterdir()} | {"home"}
    for address in databases:
        said = refused(lambda a=address: rows_of(a, text.format(place=place), tmp_path), DataError)
        assert not [word for word in ("north", "root:") if word in said]
    assert not [*place.iterdir()]
    assert {each.name for each in tmp_path.iterdir()} == before
    for address in databases[:3]:
        assert len(rows_of(address, "SELECT * FROM t", tmp_path)[1]) == 2


@pytest.mark.parametrize(
    ("role", "named"),
    [
        ("dpcost", ["'dpcost'", "superuser"]),
        ("files", ["'files'", "pg_read_server_files"]),
        ("programs", ["'programs'", "pg_execute_server_program"]),
        ("second", ["'second'", "superuser"]),
        ("lister", ["'lister'", "pg_ls_dir(text)", "REVOKE EXECUTE"]),
        ("caller", ["'caller'", "copied()", "REVOKE EXECUTE"]),
    ],
)
def test_a_role_that_may_use_files_is_refused_with_the_remedy(tmp_path, addresses, role, named):
    said = refused(lambda: rows_of(addresses[role], "SELECT * FROM t", tmp_path), DataError, *named)
    assert "REVOKE" in said or "CREATE ROLE reader LOGIN; GRANT SELECT ON" in said


@pytest.mark.parametrize(
    ("text", "n_rows"),
    [
        ("SELECT x FROM t -- a comment;", 2),
        ("SELECT x FROM t;", 2),
        ("TABLE t", 2),
        ("VALUES (1), (2), (3)", 3),
        ("WITH a AS (SELECT x FROM t) SELECT * FROM a ORDER BY x", 2),
        ("SELECT x FROM t WHERE x > 99", 0),
        ("SELECT k AS x FROM generate_series(1, 150000) AS s(k)", 150_000),
    ],
)
def test_what_reads_is_read(tmp_path, addresses, text, n_rows):
    assert len(rows_of(addresses["reader"], text, tmp_path)[1]) == n_rows


@pytest.mark.parametrize(
    ("column", "named"),
    [
        ("m", "m::numeric"),
        ("a", "EXTRACT(EPOCH FROM a)"),
        ("l", "l::text"),
        ("b", "b::text"),
        ("'1.2.3.4'::inet AS i", "i::text"),
    ],
)
def test_a_type_that_would_be_read_otherwise_is_refused_with_its_cast(tmp_path, addresses, column, named):
    text = f"SELECT n, {column} FROM paid"
    refused(lambda: rows_of(addresses["reader"], text, tmp_path), DataError, named, hidden=["44"])
    text = "SELECT m::numeric AS m, n, d, t FROM paid"
    assert str(rows_of(addresses["reader"], text, tmp_path)[1][0]["m"]) == "44.60"


@pytest.mark.parametrize(
    ("value", "named"), [("1::BIGNUM", "o::DOUBLE"), ("[1]", "o::text"), ("INTERVAL 1 DAY", "EXTRACT(EPOCH")]
)
def test_a_type_of_duckdb_is_refused_with_its_cast(tmp_path, value, named):
    _, address = in_files(tmp_path)
    refused(lambda: rows_of(address, f"SELECT x, {value} AS o FROM t", tmp_path), DataError, named)


def test_a_small_decimal_is_the_category_that_a_csv_file_writes(tmp_path):
    small = pa.array([decimal.Decimal("1E-7"), decimal.Decimal("0.0000002"), None], pa.decimal128(9, 7))
    cells = canonical_cells(small, ("0.0000001", "0.0000002"), has_codes=True)
    text = canonical_cells(
        pa.array(["0.0000001", "0.0000002", None]), ("0.0000001", "0.0000002"), has_codes=True
    )
    assert cells.texts.tolist() == text.texts.tolist()
    assert cells.numbers.tolist()[:2] == text.numbers.tolist()[:2] == [1e-7, 2e-7]


def test_a_query_runs_only_once_a_person_has_confirmed_it(command_line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    address = f"{in_files(tmp_path)[0]}?query=SELECT x FROM t"
    column = '[[data.columns]]\nname = "x"\nlower = 0\nupper = 50\nsource = "law"\n'
    about = f'[data]\npath = "{address}"\nrows = 2\nprivacy_unit = "a person"\nclusters = "none"\n'
    (tmp_path / "mine.toml").write_text(about + column)
    source = source_of(address, tmp_path)
    refused(lambda: opened_table(source).__enter__(), DataError, "confirmed", "SELECT x FROM t")
    for words in (["check", "mine.toml"], ["open", "mine.toml"]):
        status, _, err = command_line(*words)
        assert (status, "SELECT x FROM t" in err, "confirm" in err) == (2, True, True), err
        assert not is_confirmed(source)
    monkeypatch.setattr("flows.confirm.typer.confirm", lambda *_, **__: True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    status, _, err = command_line("check", "mine.toml")
    assert (status, is_confirmed(source)) == (0, True), err
    monkeypatch.undo()


def test_a_query_that_a_person_types_is_confirmed_by_that(command_line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ten = " UNION ALL ".join(f"SELECT x + {k} AS x FROM t" for k in range(5))
    address = f"{in_files(tmp_path)[0]}?query={ten}"
    assert command_line("init", "typed", "--data", address)[0] == 0
    assert is_confirmed(source_of(address, tmp_path))
    status, _, err = command_line("check", "typed.toml")
    assert (status, "confirm" in err) == (2, False), err


def test_the_question_whether_a_query_may_run_hides_none_of_it(tmp_path, monkeypatch):
    """A terminal obeys control characters: a person could confirm another query than the one that runs."""
    text = "SELECT x FROM t /*\x1b[2K\x1b[1A\x9b2K\u202e\u200b\u2028*/"
    source = source_of(f"sqlite:people.sqlite?query={text}", tmp_path)
    shown = []
    monkeypatch.setattr("flows.confirm.agrees", lambda *_: True)
    monkeypatch.setattr("builtins.print", lambda sentence, **_: shown.append(sentence))
    confirm_query_of(tmp_path / "study.toml", source)
    (sentence,) = shown
    assert r"SELECT x FROM t /*\x1b[2K\x1b[1A\x9b2K\u202e\u200b\u2028*/" in sentence
