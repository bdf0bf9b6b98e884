# /// script
# dependencies = ["python-dp==1.1.5", "numpy"]
# ///
"""PyDP, Google's library: means and least squares from bounded sums with Laplace noise.

Its guarantee counts adding or removing a row, of which replacing one is both: ε is halved.
"""

from pydp.algorithms.laplacian import BoundedSum

FAMILIES = {"PyDP sums": ["linear", "means"]}


def sums(table, epsilon, delta, seed):
    products = table.products()
    share = epsilon / 2 / len(products)
    return table.solved(
        BoundedSum(share, 0, low, high, dtype="float").quick_result(values.tolist())
        for values, low, high in products
    )


METHODS = dict(zip(FAMILIES, (sums,), strict=True))
