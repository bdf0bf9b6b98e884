"""Write the page of the guide that lists what was tried."""

from tests.outside.reports import page
from tests.outside.test_reports import PAGE

PAGE.write_text(page(), encoding="utf-8")
