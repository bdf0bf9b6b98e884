import pandas as pd
from snsql import Privacy, from_df

rows = pd.read_csv("rows.csv")
columns = {"region": {"type": "string"}, "income": {"type": "float", "lower": 0.0, "upper": 15.0001}}
about = {"": {"Housing": {"Groups": {"row_privacy": True, "rows": 20_640, **columns}}}}
# An average and the rows of its group are three releases; replacing a row is to remove one and add another.
privacy = Privacy(epsilon=1 / 6, delta=1e-7)
reader = from_df(rows.rename(columns={"median_income": "income"}), privacy=privacy, metadata=about)
query = "SELECT region, AVG(income) AS income FROM Housing.Groups GROUP BY region ORDER BY region"
answer = [income for region, income in reader.execute(query)[1:]]
