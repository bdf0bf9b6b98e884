"""Write the table of the guide that lists what was tried."""

import csv

from tests.outside.reports import table
from tests.outside.test_reports import TABLE

with TABLE.open("w", encoding="utf-8", newline="") as file:
    csv.writer(file, lineterminator="\n").writerows(table())
