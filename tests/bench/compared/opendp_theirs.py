import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")
context = dp.Context.compositor(
    data=pl.scan_csv("rows.csv"),
    privacy_unit=dp.unit_of(contributions=2),  # one row out and another in
    privacy_loss=dp.loss_of(epsilon=1.0),
    split_evenly_over=1,
    margins=[dp.polars.Margin(max_length=20_640, invariant="lengths")],
)
income = pl.col.median_income.fill_null(0.0).fill_nan(0.0)
query = context.query().select(income.dp.mean(bounds=(0.0, 15.0001)))
accuracy = query.summarize(alpha=0.05)["accuracy"][0] / 20_640  # of the sum
answer = [query.release().collect().item()]
low, high = [answer[0] - accuracy], [answer[0] + accuracy]
