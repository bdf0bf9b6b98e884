# /// script
# dependencies = ["pipeline-dp==0.3.1"]
# ///
"""PipelineDP: means and least squares from sums, its partitions, in one aggregation with Gaussian noise.

Its guarantee counts adding or removing a row, of which replacing one is both: ε is halved. Products are
scaled to [−1, 1] by their bounds.
"""

import math

import pipeline_dp

FAMILIES = {"PipelineDP sums": ["linear", "means"]}


def sums(table, epsilon, delta, seed):
    products = table.products()
    units = [((low + high) / 2, (high - low) / 2) for _, low, high in products]
    rows = [
        (row, k, (float(value) - center) / half)
        for k, ((values, _, _), (center, half)) in enumerate(zip(products, units, strict=True))
        for row, value in enumerate(values)
    ]
    accountant = pipeline_dp.NaiveBudgetAccountant(epsilon / 2, delta / (1 + math.exp(epsilon / 2)))
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    parameters = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.SUM], noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
        max_partitions_contributed=len(products), max_contributions_per_partition=1,
        min_value=-1, max_value=1,
    )  # fmt: skip
    extract = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    aggregates = engine.aggregate(rows, parameters, extract, public_partitions=list(range(len(products))))
    accountant.compute_budgets()
    totals = {partition: metrics.sum for partition, metrics in aggregates}
    n = len(table.X)
    return table.solved(n * center + half * totals[k] for k, (center, half) in enumerate(units))


METHODS = dict(zip(FAMILIES, (sums,), strict=True))
