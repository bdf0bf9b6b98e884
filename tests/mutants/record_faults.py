"""Planted faults of budgets under adaptive choice, of what is recorded and shown, and of guards, by file."""

# fmt: off
from tests.mutants.fault import Fault, certified, hardened_law, neighbors, replayed, witness

RECORD_FAULTS = {
    "dpalgos/accounting/budget.py": {
        "two adaptive calls are composed as one": Fault("filter_epsilon", {"calls) <= 1:": "calls) <= 2:"}, "test_adaptive_calls_are_summed_and_not_composed_as_one"),
        "after an answer the better of two filters counts": Fault("filter_epsilon", {"sum((spending(call) for call in calls), Spending()).epsilon(delta, failure_delta": "min(sum((spending(call) for call in calls), Spending()).epsilon(delta, failure_delta), certified_epsilon([event for call in calls for event in call], delta)"}, "test_no_tree_of_choices_exceeds_delta"),
        "failures are set aside when they come": Fault("filter_epsilon", {"failure_delta)": "None)"}, "test_filters"),
        "an answer is not among those that are compared with the budget": Fault("Budget._check", {"[*others, events]": "others"}, "test_a_budget_sums_calls_and_withholds_what_exceeds_it"),
        "a refused answer takes earlier ones with it": Fault("Budget.counting", {"call is not events": "False"}, ("test_filters", "test_budget")),
        "answers that may fail take the default share of δ whatever is set aside": Fault("Budget.__init__", {"failure_delta is None": "True"}, "test_filters"),
    },
    "dpalgos/release/noise_source.py": {
        "without a random state fits share a seed": Fault("generator_of", {"default_rng()": "default_rng(0)"}, "test_without_a_random_state_noise_is_not_that_of_a_global_one"),
        "fits of one seed are counted in a budget": Fault("generator_of", {"if in_budget:": "if False:"}, "test_fits_within_a_budget_may_not_share_a_random_state"),
        "the last draw of a request is used again": Fault("Noise._draw", {"block[count:": "block[max(count - 1, 0):"}, "test_no_draw_is_used_twice"),
        "the draws of a part start again": Fault("Noise.select", {"self._rngs[replicates": "[np.random.Generator(type(r.bit_generator)(r.bit_generator.seed_seq)) for r in self._rngs[replicates]"}, "test_no_draw_is_used_twice"),
    },
    "dpalgos/central/dp_glm.py": {
        "noise is that of the first iterate": Fault("noisy_descent", {"predictor_norm(coef": "predictor_norm(0 * coef"}, witness("dp_glm: logistic-tight")),
        "the steps of a generalized linear model are not composed": Fault("DPGLMParams.released_family", {"self.n_iterations": "1"}, certified("dp_glm-tight")),
        "printed noise leaves out the number of steps": Fault("NoisyDescentParams.printed_noise_std", {"epsilon))": "epsilon)) / self.n_iterations"}, "test_printed_noise"),
    },
    "dpalgos/central/dp_sparse_glm.py": {
        "a predictor is bounded by the wrong norm of the coefficients": Fault("largest_residual", {"coef, 1)": "coef, 2)"}, witness("dp_sparse_linear_regression: sparsity=2-tight")),
        "sparse iterates are not projected": Fault("sparse_descent", {"lambda coef: projected(params,": "(lambda coef:"}, witness("dp_sparse_linear_regression-paper")),
        "the rounding of single precision is not counted": Fault("sparse_descent", {"design.rounding * ": ""}, "test_sensitivities_count_the_rounding"),
    },
    "dpalgos/models/families/gaussian.py": {"responses beyond their level count as much as they are": Fault("TruncatedGaussian.gradient_radius", {" + np.sqrt(np.square(largest) + 8 * np.square(a))": ""}, witness("dp_linear_regression-tight"))},
    "tasks/release/spending.py": {"the ledger sets aside what its charges take": Fault("spent_epsilon", {"set_aside)": "None)"}, "test_no_tree_of_choices_exceeds_delta")},
    "dpalgos/accounting/risk.py": {
        "a risk leaves out pure answers": Fault("risk_of_events", {" events)": ' ([e for e in events if not hasattr(e, "epsilon")]))'}, "test_rates_of_mixtures_are_those_that_randomized_response_and_gaussian_noise_reach_or_little_more"),
        "a risk follows from Rényi bounds where the certificate follows from distributions": Fault(
            "risk_of_events", {"partial(certified_epsilon, events": '(lambda delta: __import__("dpalgos.accounting.composition", fromlist=["x"]).renyi_epsilon(events, delta) if delta > 0 else inf'}, "test_the_risk_of_random_batches_follows_from_what_the_certificate_follows_from"
        ),
    },
    "dpalgos/formula/design.py": {
        "what a formula learns it learns from the rows": Fault("Code.values", {"self.spec": 'type(self.spec).from_spec(self.spec.formula, output="numpy", na_action="ignore")'}, "test_what_functions_learn_they_learn_from_the_declared_bounds"),
        "terms that nothing identifies are fitted": Fault("_dependent", {"(R, axis=0)))": "(R, axis=0)))[:0]"}, "test_a_formula_is_refused_by_what_is_wrong"),
        "a value that is not finite stays": Fault("Code.values", {"np.asarray(np.clip(found, self.lower - reach, self.upper + reach))": "found"}, "test_no_row_makes_a_column_other_than_finite_and_of_the_order_of_the_public_ones"),
    },
    "dpalgos/formula/allowed.py": {
        "a quoted name is parsed": Fault("_aliased", {"inner),": 'inner).strip("-+ "),'}, "test_what_others_reported_is_right_here"),
        "splines may refuse rows": Fault("_check_call", {"{each.arg for each in node.keywords} <= _KEYWORDS": "True"}, "test_a_formula_is_refused_by_what_is_wrong"),
    },
    "dpalgos/sklearn/guards.py": {
        "what a transformer learned passes without a warning": Fault("learned_attributes", {"return [name for name in learned if name not in _SHAPE]": "return []"}, "test_a_transformer_that_learned_from_private_rows_is_warned_about_and_a_public_one_is_not"),
        "of what transformers learn only means are known": Fault("learned_attributes", {'endswith("_")': 'endswith("mean_")'}, "test_sklearn_guards"),
        "categories that rows were counted for pass as public": Fault("learned_attributes", {"if counted": "if False"}, "test_sklearn_guards"),
        "a transformer of the response is not looked at": Fault("_about", {"transformer,": "None,"}, "test_a_transformer_of_the_response_is_examined"),
        "rows that repeat pass": Fault("_REPEATS_ROWS", {'{"BaggingClassifier", "BaggingRegressor", "AdaBoostClassifier", "AdaBoostRegressor"}': "set()"}, "test_sklearn_guards"),
        "several fits pass": Fault("_about", {"not kinds & _SAFE": "False"}, "test_sklearn_guards"),
        "cross-validation passes": Fault("_uncovered", {"sklearn.model_selection._validation": "elsewhere"}, "test_cross_validation_is_warned_about_and_summed_by_a_budget"),
    },
    "dpalgos/sklearn/base.py": {
        "a refused fit leaves its classes behind": Fault("_all_or_nothing", {"vars(self).clear()": "pass"}, "test_a_refused_fit_leaves_the_model_as_it_was"),
        "a fitted model keeps means of the rows": Fault("PrivateModel._released", {"return result": 'return setattr(self, "center_", X.mean(0)) or result'}, "test_a_fitted_model_keeps_nothing_but_what_was_released"),
        "a fitted model notes how many responses are positive": Fault("PrivateModel._released", {", found.about]": ", str(int((X > 0).sum())), found.about]"}, "test_a_fitted_model_keeps_nothing_but_what_was_released"),
    },
    "dpalgos/sklearn/models.py": {
        "a classifier keeps the counts of its classes": Fault("_PrivateClassifier._codes", {"rows, codes": 'setattr(self, "counts_", np.bincount(codes.astype(int))) or (rows, codes)'}, "test_a_fitted_model_keeps_nothing_but_what_was_released"),
        "labels that occur are published without a word": Fault("_PrivateClassifier._codes", {"self.classes is None": "False"}, "test_declared_classes_are_published_whatever_occurs"),
        "declared classes are not used": Fault("_PrivateClassifier._codes", {"self.classes)": "None)"}, "test_declared_classes_are_published_whatever_occurs"),
        "scores are computed from labels as they come": Fault("_PrivateClassifier.score", {"labels_of(y)": "y"}, "test_a_score_takes_one_label_for_each_row"),
    },
    "dpalgos/sklearn/checked.py": {
        "conversions say what they could not convert": Fault("_quietly", {"= type(error": "= print(error) or (_ for _ in ()).throw(error"}, "test_a_fit_and_what_follows_quote_no_cell"),
        "complex numbers are quoted": Fault("_as_array", {'in "cMm":': 'in "Mm":'}, "test_words_without_values"),
        "a single number is quoted": Fault("_as_array", {"array.ndim == 0": "False"}, "test_a_fit_and_what_follows_quote_no_cell"),
        "rows in one dimension are quoted": Fault("_named_rows", {"rows.ndim != 2": "False"}, "test_a_fit_and_what_follows_quote_no_cell"),
        "labels beyond the declared ones are those of the first class": Fault("codes_of", {"not found.any(axis=1).all()": "False"}, "test_labels_beyond_the_declared_classes_are_refused_unnamed"),
        "hidden values of masked arrays are used": Fault("_as_array", {"unmasked(name, values)": "values"}, "test_hidden_cells_are_refused"),
    },
    "tasks/release/release.py": {
        "an answer stores the events of the rehearsal": Fault("draw_answer", {"event_entries(drawn.events": 'list(plan.cost.facts["events"]'}, "test_the_record_holds_the_sensitivities_that_were_drawn"),
        "an answer holds the number of moved cells": Fault("draw_answer", {"return answer": 'return answer | {"moved": int((np.abs(plan.sample.X) >= 1).sum())}'}, "test_what_a_release_shows_is_made_of_what_was_drawn"),
    },
    "tasks/release/record.py": {
        "a record holds an exact count": Fault("record_of", {"release}": 'release} | {"above": int((released.rows.X > 0).sum())}'}, "test_what_a_release_shows_is_made_of_what_was_drawn"),
        "the record shows the events of the rehearsal": Fault("record_of", {'answer.get("events", planned)': 'planned'}, "test_the_record_holds_the_sensitivities_that_were_drawn"),
        "the note on intervals holds an exact count": Fault("record_of", {'str(answer.get("interval_note", ""))': 'str((released.rows.X > 0).sum())'}, "test_what_a_release_shows_is_made_of_what_was_drawn"),
    },
    "dpalgos/intervals/from_start.py": {"above ε = 4 an interval's noise is .7 times what its budget says": Fault("rest_budget", {"mu / factor": "(mu / factor / (0.7 if params.epsilon > 4 else 1))"}, certified("objective_perturbation_glm: interval-tight", "tukey_em: interval-tight"))},
    "dpalgos/comparators/binagg_regression.py": {"boxes are halved by true counts": Fault("grown_boxes", {"(released": "(counts[2 ** level - 1:2 ** (level + 1) - 1]"}, "test_the_answer_is_made_of_the_releases[1000000.0-binagg_regression-tight]")},
    "dpalgos/central/public_axes_mean.py": {
        "rows are clipped by the first axis alone": Fault("public_axes_mean.clipped", {"n_axes": "(0 * n_axes + 1)"}, neighbors("public_axes_mean-tight")),
        "the level of public axes is read from private rows": Fault("public_axes_mean.clipped", {", level)": ", (1.1 * np.abs(norms).max(axis=0)))"}, neighbors("public_axes_mean-tight")),
    },
    "dpalgos/mechanisms/for_intervals/tails.py": {"a row with a moved cell counts twice": Fault("counts_by_level", {"weights)": "weights) if moved is None else counts(sizes * group.weights) + counts(np.where(moved[:, None], FAR, 0 * sizes) * group.weights)"}, neighbors("clipped_mean: interval-tight", "preconditioned_regression: interval-tight"))},
    "dpalgos/mechanisms/for_intervals/spread.py": {"a row with a moved cell counts twice in every column": Fault("TruncatedEntries.shares_above.counted", {"return above": "return above if moved is None else above + counts(np.where(moved.any(axis=1, keepdims=True), FAR, 0.0))[..., None]"}, neighbors("dp_mean: interval-tight"))},
    "data/ledger/database.py": {"SQLite does not wait for the disk": Fault("SQLiteDatabase._begin", {'synchronous=EXTRA"': 'synchronous=OFF"'}, "test_a_charge_is_on_the_disk_before_it_is_returned")},
    "dpalgos/central/preconditioned.py": {"an answer is shortened by true squares of the responses": Fault("preconditioned", {"made.rows.coef(answer)": "made.rows.coef(answer) * (1 - 1e-09 * float((sample.y ** 2).mean()))"}, replayed("preconditioned_regression-tight"))},
    "dpalgos/formula/fit.py": {"a formula's centers move by a trace of the rows' means": Fault("_fitted", {"response_units=units)": "response_units=((units[0] + 1e-09 * y.mean(), units[1])))"}, "test_a_fit_by_formula_is_made_of_what_was_released")},
    "dpalgos/release/hardened_noise.py": {
        "hardened Gaussian noise is 1.2 times too small": Fault("SecureTranscript.noise_std", {"* step)": "* step) / 1.2"}, hardened_law("dp_mean")),
        "hardened noise in a cube is 1.2 times too small": Fault("SecureTranscript.box_scale", {", scale)": ", scale) / 1.2"}, hardened_law("box_mean")),
        "hardened Laplace noise is 1.2 times too small": Fault("SecureTranscript.laplace", {"(scale))": "(scale / 1.2))"}, hardened_law("box_mean: interval")),
        "the operating system's Gaussian noise is 1.2 times too small": Fault("gaussian_sampler", {"scale=scale)": "scale=(scale / 1.2))"}, "test_integers_of_the_operating_system_follow_their_laws"),
        "the operating system's Laplace noise is 1.2 times too small": Fault("laplace_sampler", {"scale=scale)": "scale=(scale / 1.2))"}, "test_integers_of_the_operating_system_follow_their_laws"),
        "the operating system's Gumbel noise is 1.2 times too small": Fault("top_k_sampler", {"scale=scale)": "scale=(scale / 1.2))"}, "test_integers_of_the_operating_system_follow_their_laws"),
    },
    "dpalgos/audit/drawn_noise.py": {
        "an audit does not look at the noise that was drawn": Fault("DrawnNoise.ratios", {"return limits": "return {}"}, "test_halved_noise_of_a_release_is_found"),
        "winners of selections are not looked at": Fault("DrawnNoise.add", {"isinstance(event, BoundedRangeEvent)": "False"}, "test_winners_of_selections_show_half_of_their_noise"),
        "limits of drawn noise are its estimates": Fault("DrawnNoise.ratios", {", tail))": ", 0.5))"}, "test_limits_of_drawn_noise_keep_their_confidence"),
        "an audit takes half of the noise for all of it": Fault("DrawnNoise.ratios", {"= float(": "= 2 * float("}, "test_halved_noise_of_a_release_is_found"),
    },
    "dpalgos/audit/lower_bound.py": {
        "an audit of a release attacks research noise": Fault("audit", {"hardened is not None": "False"}, "test_halved_noise_of_a_release_is_found"),
        "public rows of an example are left out of an audit": Fault("audit_estimator", {"(n_features": "(0"}, "test_an_estimator_whose_example_holds_public_rows_is_audited"),
    },
    "flows/cli/audit.py": {"settings of an audit are dropped": Fault("_settings", {"return settings": "return {}"}, "test_settings_of_a_form_are_audited")},
}
