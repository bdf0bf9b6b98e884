"""Planted faults of budgets under adaptive choice, of what is recorded and shown, and of guards, by file."""

# fmt: off
from tests.mutants.changes import (
    argument,
    call,
    condition,
    name,
    number,
    operation,
    returns,
    text,
    value,
    without,
)
from tests.mutants.fault import Fault, certified, hardened_law, neighbors, replayed, witness

RECORD_FAULTS = {
    "dpalgos/accounting/budget.py": {
        "two adaptive calls are composed as one": Fault("filter_epsilon", number(1, 2), "test_adaptive_calls_are_summed_and_not_composed_as_one"),
        "after an answer the better of two filters counts": Fault("filter_epsilon", call("epsilon", "min({all}, certified_epsilon([event for call in calls for event in call], delta))"), "test_no_tree_of_choices_exceeds_delta"),
        "failures are set aside when they come": Fault("filter_epsilon", argument("epsilon", 1, "None"), "test_filters"),
        "an answer is not among those that are compared with the budget": Fault("Budget._check", argument("_proved", 0, "others", nth=0), "test_a_budget_sums_calls_and_withholds_what_exceeds_it"),
        "a refused answer takes earlier ones with it": Fault("Budget.counting", condition("call", "False"), ("test_filters", "test_budget")),
        "answers that may fail take the default share of δ whatever is set aside": Fault("Budget.__init__", condition("failure_delta", "True", nth=0), "test_filters"),
    },
    "dpalgos/release/noise_source.py": {
        "without a random state fits share a seed": Fault("generator_of", call("default_rng", "np.random.default_rng(0)", nth=0), "test_without_a_random_state_noise_is_not_that_of_a_global_one"),
        "fits of one seed are counted in a budget": Fault("generator_of", condition("in_budget", "False"), "test_fits_within_a_budget_may_not_share_a_random_state"),
        "the last draw of a request is used again": Fault("Noise._draw", name("count", "max(count - 1, 0)", nth=3), "test_no_draw_is_used_twice"),
        "the draws of a part start again": Fault("Noise.select", returns("Noise([np.random.Generator(type(r.bit_generator)(r.bit_generator.seed_seq)) for r in self._rngs[replicates]])"), "test_no_draw_is_used_twice"),
    },
    "dpalgos/central/dp_glm.py": {
        "noise is that of the first iterate": Fault("noisy_descent", argument("predictor_norm", 0, "0 * {all}"), witness("dp_glm: logistic-tight")),
        "the steps of a generalized linear model are not composed": Fault("DPGLMParams.released_family", argument("gaussian_multiplier", 1, "1"), certified("dp_glm-tight")),
        "printed noise leaves out the number of steps": Fault("NoisyDescentParams.printed_noise_std", returns("{all} / self.n_iterations"), "test_printed_noise"),
    },
    "dpalgos/central/dp_sparse_glm.py": {
        "a predictor is bounded by the wrong norm of the coefficients": Fault("largest_residual", number(1, 2), witness("dp_sparse_linear_regression: sparsity=2-tight")),
        "sparse iterates are not projected": Fault("sparse_descent", argument("noisy_iht", "project", "lambda coef: coef"), witness("dp_sparse_linear_regression-paper")),
        "the rounding of single precision is not counted": Fault("sparse_descent", operation("rounding", "moves"), "test_sensitivities_count_the_rounding"),
    },
    "dpalgos/models/families/gaussian.py": {"responses beyond their level count as much as they are": Fault("TruncatedGaussian.gradient_radius", operation("sqrt", "{left}", nth=0), witness("dp_linear_regression-tight"))},
    "tasks/release/spending.py": {"the ledger sets aside what its charges take": Fault("spent_epsilon", argument("epsilon", 1, "None"), "test_no_tree_of_choices_exceeds_delta")},
    "dpalgos/accounting/risk.py": {
        "a risk leaves out pure answers": Fault("risk_of_events", argument("partial", 1, "[e for e in events if not hasattr(e, 'epsilon')]"), "test_rates_of_mixtures_are_those_that_randomized_response_and_gaussian_noise_reach_or_little_more"),
        "a risk follows from Rényi bounds where the certificate follows from distributions": Fault(
            "risk_of_events", call("partial", "lambda delta: __import__('dpalgos.accounting.composition', fromlist=['x']).renyi_epsilon(events, delta) if delta > 0 else inf"), "test_the_risk_of_random_batches_follows_from_what_the_certificate_follows_from"
        ),
    },
    "dpalgos/formula/design.py": {
        "what a formula learns it learns from the rows": Fault("Code.values", argument("_evaluated", 0, "type({all}).from_spec({all}.formula, output='numpy', na_action='ignore')"), "test_what_functions_learn_they_learn_from_the_declared_bounds"),
        "terms that nothing identifies are fitted": Fault("_dependent", returns("{all}[:0]"), "test_terms_that_no_rows_identify_are_refused_by_name"),
        "a value that is not finite stays": Fault("Code.values", returns("found"), "test_no_row_makes_a_column_other_than_finite_and_of_the_order_of_the_public_ones"),
    },
    "dpalgos/formula/allowed.py": {
        "a quoted name is parsed": Fault("_aliased", argument("column", 0, "{all}.strip('-+ ')", nth=1), "test_a_column_may_have_any_name_on_either_side"),
        "splines may refuse rows": Fault("_check_call", operation("_KEYWORDS", "True"), "test_what_is_not_public_is_refused_with_its_reason"),
    },
    "dpalgos/sklearn/guards.py": {
        "what a transformer learned passes without a warning": Fault("learned_attributes", returns("[]"), "test_a_transformer_that_learned_from_private_rows_is_warned_about_and_a_public_one_is_not"),
        "of what transformers learn only means are known": Fault("learned_attributes", call("endswith", "{of}.endswith('mean_')"), "test_sklearn_guards"),
        "categories that rows were counted for pass as public": Fault("learned_attributes", condition("counted", "False", nth=1), "test_sklearn_guards"),
        "a transformer of the response is not looked at": Fault("_about", argument("_about_step", 1, "None", nth=1), "test_a_transformer_of_the_response_is_examined"),
        "rows that repeat pass": Fault("_REPEATS_ROWS", value("set()"), "test_sklearn_guards"),
        "several fits pass": Fault("_about", condition("_SAFE", "False"), "test_sklearn_guards"),
        "cross-validation passes": Fault("_uncovered", text("sklearn.model_selection._validation", "elsewhere"), "test_cross_validation_is_warned_about_and_summed_by_a_budget"),
    },
    "dpalgos/sklearn/base.py": {
        "a refused fit leaves its classes behind": Fault("_all_or_nothing", without("clear"), "test_a_refused_fit_leaves_the_model_as_it_was"),
        "a fitted model keeps means of the rows": Fault("PrivateModel._released", returns("setattr(self, 'center_', X.mean(0)) or {all}"), "test_a_fitted_model_keeps_nothing_but_what_was_released"),
        "a fitted model notes how many responses are positive": Fault("PrivateModel._released", argument("get", 1, "str(int((X > 0).sum()))", nth=1), "test_a_fitted_model_keeps_nothing_but_what_was_released"),
    },
    "dpalgos/sklearn/models.py": {
        "a classifier keeps the counts of its classes": Fault("_PrivateClassifier._codes", returns("setattr(self, 'counts_', np.bincount(codes.astype(int))) or {all}"), "test_a_fitted_model_keeps_nothing_but_what_was_released"),
        "labels that occur are published without a word": Fault("_PrivateClassifier._codes", condition("classes", "False"), "test_declared_classes_are_published_whatever_occurs"),
        "declared classes are not used": Fault("_PrivateClassifier._codes", argument("codes_of", 1, "None"), "test_declared_classes_are_published_whatever_occurs"),
        "scores are computed from labels as they come": Fault("_PrivateClassifier.score", call("labels_of", "{0}"), "test_a_fit_and_what_follows_quote_no_cell"),
    },
    "dpalgos/sklearn/checked.py": {
        "conversions say what they could not convert": Fault("_quietly", call("type", "print({0}) or (_ for _ in ()).throw({0})"), "test_a_fit_and_what_follows_quote_no_cell"),
        "complex numbers are quoted": Fault("_as_array", text("cMm", "Mm"), "test_words_without_values"),
        "a single number is quoted": Fault("_as_array", operation("ndim", "False"), "test_a_fit_and_what_follows_quote_no_cell"),
        "rows in one dimension are quoted": Fault("_named_rows", operation("ndim", "False"), "test_a_fit_and_what_follows_quote_no_cell"),
        "labels beyond the declared ones are those of the first class": Fault("codes_of", condition("found", "False"), "test_labels_beyond_the_declared_classes_are_refused_unnamed"),
    },
    "tasks/release/release.py": {
        "the record shows the events of the rehearsal": Fault("Release.events", returns("list(self.facts['events'])"), "test_the_record_holds_the_sensitivities_that_were_drawn"),
        "an answer stores the events of the rehearsal": Fault("draw_answer", call("event_entries", "list(plan.facts['events'])"), "test_the_record_holds_the_sensitivities_that_were_drawn"),
        "an answer holds the number of moved cells": Fault("draw_answer", returns("{all} | {{'moved': int((np.abs(plan.sample.X) >= 1).sum())}}"), "test_what_a_release_shows_is_made_of_what_was_drawn"),
        "the note on intervals holds an exact count": Fault("Release.to_dict", call("str", "str({0}) + str(int((np.asarray(self.plan.rows.X) > 0).sum()))", nth=0), "test_what_a_release_shows_is_made_of_what_was_drawn"),
    },
    "tasks/release/record.py": {"a record holds an exact count": Fault("record_of", returns("{all} | {{'above': int((released.plan.rows.X > 0).sum())}}"), "test_what_a_release_shows_is_made_of_what_was_drawn")},
    "dpalgos/intervals/from_start.py": {"above ε = 4 an interval's noise is .7 times what its budget says": Fault("IntervalFromStart.rest_budget", argument("gaussian_epsilon", 1, "{all} / (0.7 if self.epsilon > 4 else 1)"), certified("objective_perturbation_glm: interval-tight", "tukey_em: interval-tight"))},
    "dpalgos/comparators/binagg_regression.py": {"boxes are halved by true counts": Fault("grown_boxes", operation(">", "counts[2**level - 1 : 2 ** (level + 1) - 1] > enough"), "test_the_answer_is_made_of_the_releases[1000000.0-binagg_regression-tight]")},
    "dpalgos/central/public_axes_mean.py": {
        "rows are clipped by the first axis alone": Fault("public_axes_mean.clipped", name("n_axes", "(0 * {all} + 1)"), neighbors("public_axes_mean-tight")),
        "the level of public axes is read from private rows": Fault("public_axes_mean.clipped", argument("clip_factor", 1, "1.1 * np.abs(norms).max(axis=0)"), neighbors("public_axes_mean-tight")),
    },
    "dpalgos/mechanisms/for_intervals/tails.py": {"a row with a moved cell counts twice": Fault("counts_by_level", returns("{all} if moved is None else {all} + counts(np.where(moved[:, None], FAR, 0 * sizes) * group.weights)"), neighbors("clipped_mean: interval-tight", "preconditioned_regression: interval-tight"))},
    "dpalgos/mechanisms/for_intervals/spread.py": {"a row with a moved cell counts twice in every column": Fault("TruncatedEntries.shares_above.counted", returns("{all} if moved is None else {all} + counts(np.where(moved.any(axis=1, keepdims=True), FAR, 0.0))[..., None]"), neighbors("dp_mean: interval-tight"))},
    "data/ledger/database.py": {"SQLite does not wait for the disk": Fault("SQLiteDatabase._begin", text("synchronous=EXTRA", "synchronous=OFF"), "test_a_charge_is_on_the_disk_before_it_is_returned")},
    "dpalgos/central/preconditioned_regression.py": {"an answer is shortened by true squares of the responses": Fault("preconditioned_regression", returns("{all} * (1 - 1e-9 * float((sample.y**2).mean()))"), replayed("preconditioned_regression-tight"))},
    "dpalgos/formula/fit.py": {"a formula's centers move by a trace of the rows' means": Fault("_fitted", argument("FormulaResult", "response_units", "({all}[0] + 1e-9 * y.mean(), {all}[1])"), "test_a_fit_by_formula_is_made_of_what_was_released")},
    "dpalgos/release/hardened_noise.py": {
        "hardened Gaussian noise is 1.2 times too small": Fault("SecureTranscript.noise_std", returns("{all} / 1.2"), hardened_law("dp_mean")),
        "hardened noise in a cube is 1.2 times too small": Fault("SecureTranscript.box_scale", returns("{all} / 1.2"), hardened_law("box_mean")),
        "hardened Laplace noise is 1.2 times too small": Fault("SecureTranscript.laplace", argument("laplace_sampler", 0, "{all} / 1.2"), hardened_law("box_mean: interval")),
        "the operating system's Gaussian noise is 1.2 times too small": Fault("gaussian_sampler", argument("make_gaussian", "scale", "{all} / 1.2"), "test_integers_of_the_operating_system_follow_their_laws"),
        "the operating system's Laplace noise is 1.2 times too small": Fault("laplace_sampler", argument("make_laplace", "scale", "{all} / 1.2"), "test_integers_of_the_operating_system_follow_their_laws"),
        "the operating system's Gumbel noise is 1.2 times too small": Fault("top_k_sampler", argument("make_noisy_top_k", "scale", "{all} / 1.2"), "test_integers_of_the_operating_system_follow_their_laws"),
    },
    "dpalgos/audit/drawn_noise.py": {
        "an audit does not look at the noise that was drawn": Fault("DrawnNoise.ratios", returns("{{}}"), "test_halved_noise_of_a_release_is_found"),
        "winners of selections are not looked at": Fault("DrawnNoise.add", condition("_add_selection", "False"), "test_winners_of_selections_show_half_of_their_noise"),
        "limits of drawn noise are its estimates": Fault("DrawnNoise.ratios", argument("gammaincinv", 1, "0.5"), "test_limits_of_drawn_noise_keep_their_confidence"),
        "an audit takes half of the noise for all of it": Fault("DrawnNoise.ratios", call("float", "2 * float({0})"), "test_halved_noise_of_a_release_is_found"),
    },
    "dpalgos/audit/lower_bound.py": {
        "an audit of a release attacks research noise": Fault("audit", condition("HardenedTrials", "False"), "test_halved_noise_of_a_release_is_found"),
        "public rows of an example are left out of an audit": Fault("audit_estimator", name("n_features", "0", nth=0), "test_an_estimator_whose_example_holds_public_rows_is_audited"),
    },
    "flows/cli/audit.py": {"settings of an audit are dropped": Fault("_settings", returns("{{}}"), "test_settings_of_a_form_are_audited")},
}
