"""The tables that an earlier version wrote: one chain of entries, and its head."""

import sqlalchemy as sa

_EARLIER = sa.MetaData()
EARLIER = sa.Table(
    "dpcost_ledger",
    _EARLIER,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    *(
        sa.Column(name, sa.Text, nullable=False)
        for name in ("kind", "dataset", "subject", "digest", "previous", "hash", "body")
    ),
)
EARLIER_HEAD = sa.Table(
    "dpcost_ledger_head",
    _EARLIER,
    sa.Column("n_entries", sa.BigInteger, nullable=False),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("hash", "key_id", "mac")),
)
# Where they stay once they were taken over (data.ledger.migration).
BEFORE = EARLIER.to_metadata(sa.MetaData(), name="dpcost_ledger_before")
