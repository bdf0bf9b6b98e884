"""The answers that a ledger holds, read behind its back."""

import json
import sqlite3
from contextlib import closing


def stored_answers(ledger):
    """Return the answers in a ledger's SQLite file by the ids of their charges, those that are held too."""
    with closing(sqlite3.connect(ledger.place)) as database:
        found = database.execute("SELECT subject, body FROM dpcost_ledger WHERE kind = 'release'").fetchall()
    return {charge: json.loads(body)["payload"] for charge, body in found}
