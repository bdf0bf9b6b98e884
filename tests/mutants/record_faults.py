"""Planted faults of budgets under adaptive choice, of what is recorded and shown, and of guards, by file."""

from tests.mutants.changes import argument, call, condition, name, number, returns, value, without
from tests.mutants.fault import Fault

RECORD_FAULTS = {
    "dpalgos/accounting/filters.py": {
        "two adaptive calls are composed as one": Fault(
            "concentrated_filter_epsilon",
            number(1, 2),
            "test_adaptive_calls_are_summed_and_not_composed_as_one",
        ),
        "after an answer the better of two filters counts": Fault(
            "concentrated_filter_epsilon",
            call("epsilon", "min({all}, gaussian_filter_epsilon(calls, delta))"),
            "test_no_tree_of_choices_exceeds_delta",
        ),
        "failures are set aside when they come": Fault(
            "concentrated_filter_epsilon", argument("epsilon", 1, "None"), "test_filters"
        ),
        "of disjoint groups the cheapest one counts in a budget": Fault(
            "gaussian_filter_epsilon",
            call("max", "min({0})"),
            "test_gaussian_answers_of_disjoint_groups_cost_their_dearest_one_each_time",
        ),
    },
    "tasks/release/spending.py": {
        "the ledger sets aside what its charges take": Fault(
            "spent_epsilon", argument("epsilon", 1, "None"), "test_no_tree_of_choices_exceeds_delta"
        ),
    },
    "dpalgos/accounting/risk.py": {
        "a risk follows from Rényi bounds where the certificate follows from distributions": Fault(
            "risk_of_events",
            call(
                "partial",
                "lambda delta: __import__('dpalgos.accounting.composition', fromlist=['x'])"
                ".renyi_epsilon(events, delta) if delta > 0 else inf",
            ),
            "test_the_risk_of_random_batches_follows_from_what_the_certificate_follows_from",
        ),
    },
    "dpalgos/formula/design.py": {
        "names of splines round their knots": Fault(
            "Part.name",
            call("repr", "format({0}, 'g')"),
            "test_splines_whose_knots_differ_in_the_last_digit_have_different_names",
        ),
    },
    "dpalgos/sklearn/guards.py": {
        "what a transformer learned passes without a warning": Fault(
            "learned_attributes",
            returns("[]"),
            "test_a_transformer_that_learned_from_private_rows_is_warned_about_and_a_public_one_is_not",
        ),
        "categories that rows were counted for pass as public": Fault(
            "learned_attributes",
            condition("counted", "False", nth=1),
            "test_a_step_that_counted_rows_is_warned_about",
        ),
        "a transformer of the response is not looked at": Fault(
            "_about",
            argument("_about_step", 1, "None", nth=1),
            "test_a_transformer_of_the_response_is_examined",
        ),
        "rows that repeat pass": Fault("_REPEATS_ROWS", value("set()"), "test_sklearn_guards"),
        "a calibration without noise passes": Fault("_LEARNS", value("{{}}"), "test_sklearn_guards"),
        "several fits pass": Fault("_about", condition("_SAFE", "False"), "test_sklearn_guards"),
    },
    "dpalgos/sklearn/base.py": {
        "a refused fit leaves its classes behind": Fault(
            "_all_or_nothing", without("clear"), "test_a_refused_fit_leaves_the_model_as_it_was"
        ),
        "a fitted model keeps means of the rows": Fault(
            "PrivateModel._released",
            returns("setattr(self, 'center_', X.mean(0)) or {all}"),
            "test_a_fitted_model_keeps_nothing_but_what_was_released",
        ),
        "a fitted model notes how many responses are positive": Fault(
            "PrivateModel._released",
            argument("get", 1, "str(int((X > 0).sum()))", nth=1),
            "test_a_fitted_model_keeps_nothing_but_what_was_released",
        ),
    },
    "dpalgos/sklearn/models.py": {
        "a classifier keeps the counts of its classes": Fault(
            "_PrivateClassifier._codes",
            returns("setattr(self, 'counts_', np.bincount(codes)) or {all}"),
            "test_a_fitted_model_keeps_nothing_but_what_was_released",
        ),
    },
    "tasks/release/release.py": {
        "the record shows the events of the rehearsal": Fault(
            "Release.events",
            returns("list(self.facts['events'])"),
            "test_the_record_holds_the_sensitivities_that_were_drawn",
        ),
        "an answer holds the number of moved cells": Fault(
            "draw",
            returns("{all} | {{'moved': int((np.abs(plan.sample.X) >= 1).sum())}}"),
            "test_what_a_release_shows_is_made_of_what_was_drawn",
        ),
        "the note on intervals holds an exact count": Fault(
            "Release.to_dict",
            call("str", "str({0}) + str(int((np.asarray(self.plan.rows.X) > 0).sum()))"),
            "test_what_a_release_shows_is_made_of_what_was_drawn",
        ),
    },
    "tasks/release/record.py": {
        "a record holds an exact count": Fault(
            "record_of",
            returns("{all} | {{'above': int((released.plan.rows.X > 0).sum())}}"),
            "test_what_a_release_shows_is_made_of_what_was_drawn",
        ),
    },
    "tasks/release/plan.py": {
        "the warning of a large delta names an exact count": Fault(
            "_warn_of_large_delta",
            name("units", "(units + str(int((np.asarray(rows.X) > 0).sum())))", nth=1),
            "test_what_a_release_shows_is_made_of_what_was_drawn",
        ),
    },
}
