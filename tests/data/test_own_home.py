import os

import pytest

from data.errors import StoreError
from data.store import home_checks as own_home
from data.store.home_checks import require_own_home
from flows.cli import launch
from flows.record import journal
from flows.server.serve import _alone


@pytest.fixture
def be(monkeypatch):
    """A function that makes this process another account's, or its own's again."""
    return lambda uid: monkeypatch.setattr(own_home.os, "geteuid", lambda: uid)


ANOTHER = os.getuid() + 4242


def used(folder):
    with journal.exclusive_run(folder):
        return folder


def test_a_home_that_another_account_uses_is_refused_with_what_to_do(tmp_path, be, home):
    name = own_home.account(os.getuid())
    used(home)
    be(ANOTHER)
    for use in (
        lambda: require_own_home(home),
        lambda: used(home),
        lambda: _alone(home).__enter__(),
        lambda: launch.launch(["housing"], {}, workers=1, engine="local", out=tmp_path),
    ):
        with pytest.raises(
            StoreError, match=f"is used by {name}, .* set DPCOST_HOME to a folder of your own"
        ):
            use()


def test_a_home_that_its_owner_keeps_closed_is_refused(tmp_path, be, monkeypatch):
    def closed(path, *, follow_symlinks=True):
        if path.name == own_home.LOCK:
            raise PermissionError
        return os.stat(path)

    be(ANOTHER)
    monkeypatch.setattr(own_home.Path, "stat", closed)
    with pytest.raises(StoreError, match=f"is used by {own_home.account(os.getuid())}"):
        require_own_home(tmp_path)


def test_a_home_that_nobody_uses_yet_and_ones_own_are_taken(tmp_path, be):
    be(ANOTHER)
    require_own_home(tmp_path)
    require_own_home(tmp_path / "not there")
    be(os.getuid())
    require_own_home(used(tmp_path))


def test_root_uses_any_home(tmp_path, be):
    used(tmp_path)
    be(0)
    require_own_home(tmp_path)


def test_an_account_without_a_name_is_called_by_its_number():
    assert own_home.account(987_654) == "user 987654"
