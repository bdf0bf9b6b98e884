"""The scripted web server of the tests of data, also here."""

from tests.data.conftest import web  # noqa: F401
