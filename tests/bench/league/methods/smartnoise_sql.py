# /// script
# dependencies = ["smartnoise-sql==1.0.10"]
# ///
"""SmartNoise SQL: means and least squares from sums in one query, with an equal share of ε and δ each.

Its guarantee counts adding or removing a row, of which replacing one is both: ε is halved.
"""

import pandas as pd
from snsql import Privacy, from_df

FAMILIES = {"SmartNoise SQL sums": ["linear", "means"]}


def sums(table, epsilon, delta, seed):
    products = table.products()
    frame = pd.DataFrame({f"p{k}": values for k, (values, _, _) in enumerate(products)})
    columns = {
        f"p{k}": {"type": "float", "lower": low, "upper": high} for k, (_, low, high) in enumerate(products)
    }
    about = {"row_privacy": True, "rows": len(frame), "censor_dims": False, **columns}
    share = Privacy(epsilon=epsilon / 2 / len(products), delta=delta / 4 / len(products))
    reader = from_df(frame, privacy=share, metadata={"": {"League": {"Products": about}}})
    wanted = ", ".join(f"SUM({name}) AS s{name}" for name in frame)
    return table.solved(reader.execute(f"SELECT {wanted} FROM League.Products")[1])


METHODS = dict(zip(FAMILIES, (sums,), strict=True))
