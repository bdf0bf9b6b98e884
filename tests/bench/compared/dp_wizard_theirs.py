import sys
from pathlib import Path


def script_of_the_form() -> str:
    """Return the script that DP Wizard makes of the entries of its form in the browser."""
    import polars as pl
    from dp_wizard.types import ColumnName, Product
    from dp_wizard.utils.code_generators import AnalysisPlan, AnalysisPlanColumn
    from dp_wizard.utils.code_generators.analyses import histogram
    from dp_wizard.utils.code_generators.script_generator import ScriptGenerator

    column = ColumnName("housing_median_age")
    plan = AnalysisPlan(
        product=Product.STATISTICS,
        path="rows.csv",
        contributions=2,  # one row out and another in
        contributions_entity="block group",
        epsilon=1.0,
        max_rows=20_640,
        groups={},
        analysis_columns={column: [AnalysisPlanColumn(histogram.name, 0, 54, 9, 1)]},
        schema_columns={column: pl.Float64()},
    )
    return ScriptGenerator(plan, "").make_py()


place = Path("wizard.py")
if not place.exists():  # then it is run as users run it: python wizard.py --csv rows.csv
    place.write_text(script_of_the_form())
sys.argv, script = ["wizard.py", "--csv", "rows.csv"], {"__name__": "__main__"}
exec(place.read_text(), script)
counts = dict(script["housing_median_age_stats"].iter_rows())
answer = [counts[each] for each in sorted(counts, key=lambda name: float(name[1:].split(",")[0]))]
low = [each - script["housing_median_age_accuracy"] for each in answer]
high = [each + script["housing_median_age_accuracy"] for each in answer]
