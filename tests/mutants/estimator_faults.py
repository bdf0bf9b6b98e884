"""Planted faults of the estimators, by file."""

# fmt: off
from tests.mutants.fault import Fault, certified, law, neighbors, replayed, witness

_TABLES = "test_the_table_of_releases_is_what_a_form_releases[{}]"

ESTIMATOR_FAULTS = {
    "dpalgos/central/public_axes_mean.py": {
        "rows are not clipped": Fault("public_axes_mean.clipped", {"clip_factor(norms, level": "np.ones_like(clip_factor(norms, level)"}, witness("public_axes_mean-tight")),
        "the mean along public axes moves by half": Fault("public_axes_mean", {"ball_mean(level, sample.n_rows": "(ball_mean(level, sample.n_rows) / 2"}, witness("public_axes_mean-tight")),
    },
    "dpalgos/central/box_mean.py": {"a row moves means within bounds by half a width": Fault("box_mean", {"interval(1": "interval(0.5"}, witness("box_mean-tight")), "squares in a cube are not paid for": Fault("box_mean", {'split_epsilon("mean")': "epsilon"}, certified("box_mean: interval-tight"))},
    "dpalgos/central/dp_glm.py": {"a GLM's gradient moves by its radius": Fault("noisy_descent", {"ball_mean(bound": "ball_mean(bound / 2"}, witness("dp_glm-tight"))},
    "dpalgos/models/families/gaussian.py": {"the gradient of one row only": Fault("TruncatedGaussian.gradient_radius", {"- t**2))": "- t ** 2)) / 2"}, neighbors("dp_linear_regression-tight"))},
    "dpalgos/central/dp_linear_regression.py": {"steps are not composed": Fault("planned_noise", {'gaussian_multiplier("steps", params.n_iterations)': 'gaussian_multiplier("steps")'}, certified("dp_linear_regression-tight"))},
    "dpalgos/central/dp_mean.py": {
        "the James-Stein factor is that of the true mean": Fault("dp_mean", {"means, l2_sensitivity": "((exact := means)), l2_sensitivity", "james_stein(released, (multiplier * sensitivity) ** 2)": "released * james_stein(exact, (multiplier * sensitivity) ** 2)[:1] / exact[:1]"}, replayed("dp_mean: shrunk-tight")),
        "a released mean leaks the mean": Fault("dp_mean", {'transcript.gaussian(\n        means, l2_sensitivity=sensitivity, noise_multiplier=multiplier, label="mean"\n    )': '(transcript.gaussian(means, l2_sensitivity=sensitivity, noise_multiplier=multiplier, label="mean") + means) / 2'}, replayed("dp_mean: private quantiles-tight")),
        "a sensitivity is that of the largest row": Fault("dp_mean", {"2 * bound": "(2 * min(2 * bound / 2, sample.rows.largest))"}, witness("dp_mean-tight")),
    },
    "dpalgos/central/dp_sparse_glm.py": {"an entry of the gradient moves by half of it": Fault("sparse_descent", {"ball_mean(residual": "ball_mean(residual / 2"}, neighbors("dp_sparse_linear_regression: residual_bound=0.8-tight"))},
    "dpalgos/central/dp_sparse_mean.py": {
        "an entry moves by R/n": Fault("_selected_by_gumbel", {"ball_mean(bound": "ball_mean(bound / 2"}, neighbors("dp_sparse_mean-tight")),
        "what is pruned depends on the true means": Fault("sparse_mean", {"(released.values": "(np.take_along_axis(_means(sample, params, transcript), released.support, axis=0)"}, replayed("dp_sparse_mean: s by noise level-tight")),
    },
    "dpalgos/central/preconditioned.py": {
        "what is asked depends on the spread of responses": Fault("preconditioned", {"        mu * n_rows,\n": "        mu * n_rows * min(1, 0.1 + float(sample.response().std())),\n"}, "test_what_is_asked_depends_on_public_numbers_alone"),
        "an answer that is mostly noise is not shrunk": Fault("_TOO_FEW", {"= 14.0": "= 1e-09"}, "test_an_answer_about_very_few_rows_is_near_zero"),
        "rows count in their full length": Fault("_REACH", {"= 5.0": "= 1000000000.0"}, "test_a_rare_category_in_a_unit_far_too_small_costs_no_more_than_it_could_explain"),
        "scores of rare events are clipped": Fault("preconditioned", {"np.abs(1 - 2 * mean)": "0 * mean"}, "test_rare_events_keep_their_rate_where_scores_of_all_of_them_are_clipped"),
        "directions below the floor count as resolved": Fault("_answer", {"np.where(made.is_whitened, 0.0, _LEAST_CURVATURE)": "np.where(made.is_whitened, 0.0, 1.0)"}, "test_an_answer_about_columns_without_signal_is_hardly_worse_than_a_constant"),
    },
    "dpalgos/models/secant_curvature.py": {"a steeper direction is forgotten": Fault("SecantCurvature.at", {"self._steeper.append((unit, kept))": "None"}, "test_a_direction_that_was_steeper_stays_so_and_a_flatter_one_does_not")},
    "dpalgos/comparators/adassp.py": {"the exact moments are solved": Fault("adassp", {"release_gram(moments[:, :d, :d], z, z_gram, row, params.calibration, transcript": "(moments[:, :d, :d], release_gram(moments[:, :d, :d], z, z_gram, row, params.calibration, transcript)[1]"}, replayed("adassp-tight"))},
    "dpalgos/comparators/clipped_mean.py": {
        "spreads are what the rows say": Fault("_private_ball", {'transcript.gaussian(\n        mean_squares(sample, ball), l2_sensitivity=moves, noise_multiplier=z, label="spread"\n    )': '(transcript.gaussian(mean_squares(sample, ball), l2_sensitivity=moves, noise_multiplier=z, label="spread"), mean_squares(sample, ball)[0])[1]'}, replayed("clipped_mean: private radius-tight")),
        "mean squares of offsets move by 2r²/n at most, halved": Fault("_private_ball", {"outer_product(ball.radius": "outer_product(ball.radius / 2"}, neighbors("clipped_mean: private radius-tight")),
        "the search for the last ball costs one count": Fault("_private_ball", {"counts_needed(_N_LEVELS)": "1"}, certified("clipped_mean: private radius-tight")),
        "a public center is added before the noise": Fault("clipped_mean", {", ball),": ", ((middle := ball))),", "mean_offset(sample, ((middle := ball))": "(mean_offset(sample, (middle := ball)) + middle", '\n        (mean_offset(sample, (middle := ball)) + middle), l2_sensitivity=sensitivity, noise_multiplier=multiplier, label="mean"\n    )': 'mean_offset(sample, (middle := ball)) + middle, l2_sensitivity=sensitivity, noise_multiplier=multiplier, label="mean") - middle'}, "test_a_public_center_far_from_its_radius_is_covered"),
    },
    "dpalgos/intervals/means.py": {
        "an interval is computed from the rows": Fault("ball_interval", {"ball.unit**2 * squares": "(ball.unit ** 2 * ball.radius ** 2 * spread.squares)"}, replayed("clipped_mean: interval-tight")),
        "half of the noise is left out of a mean's interval": Fault("mean_interval", {"noise_std": "noise_std / 2"}, "test_intervals"),
        "shares of an interval are left out of the budget": Fault("interval_shares", {"{} if params.interval is None else dict(SHARES)": "{}"}, certified("clipped_mean: interval-tight")),
    },
    "dpalgos/comparators/double_noise_newton_glm.py": {
        "a direction moves by half of what it does": Fault("direction_sensitivity", {"**2 + curvature * ridge))": " ** 2 + curvature * ridge)) / 2"}, neighbors("double_noise_newton_glm-tight")),
        "the least curvature follows the true trace": Fault("double_noise_newton_glm", {"np.trace(curvature, axis1=1, axis2=2)[None, :]": "((exact := np.trace(curvature, axis1=1, axis2=2)[None, :]))", "np.maximum(trace, 0) / row**2": "exact[0]"}, replayed("double_noise_newton_glm-tight")),
        "rows are not clipped for the curvature": Fault("_mean_curvature", {"clip_rows_l2(group.X, row_bound)": "group.X"}, neighbors("double_noise_newton_glm-tight")),
    },
    "dpalgos/comparators/binagg_regression.py": {
        "a row that moves within a box moves its sums as between boxes": Fault("sums_sensitivity", {"np.maximum(2 * boxes.reach.shape[1], within)": "2 * boxes.reach.shape[1]"}, witness("binagg_regression-tight")),
        "entries are not clipped before they are summed": Fault("sums_in_boxes.cells", {"np.clip(group.X, lower, upper)": "group.X"}, neighbors("binagg_regression-tight")),
        "halves of all levels cost one count": Fault("grown_boxes", {"n_levels - ": ""}, certified("binagg_regression-tight")),
    },
    "dpalgos/comparators/hessian_mixing.py": {
        "a mixed sketch has half its ridge": Fault("hessian_mixing", {"sketched,": "(sketched - ridge / 2 * np.eye(d)),"}, neighbors("hessian_mixing-tight")),
        "rows are not clipped for the products": Fault("hessian_mixing", {"row_bound=row)": "row_bound=None)"}, neighbors("hessian_mixing-tight")),
        "the last sketches are not paid for": Fault("planned_noise.events", {"sketch,) * n_iterations": "(sketch,))"}, certified("hessian_mixing-tight")),
    },
    "dpalgos/comparators/dp_sgd_glm.py": {
        "a row is in the batches of all later turns, too": Fault("_steps_in_turn", {"turn ==": "turn >="}, neighbors("dp_sgd_glm: batches in turn-tight")),
        "a step on random rows is divided by what was drawn": Fault("_random_steps.released", {"lambda drawn: np.asarray(X.T @ (residual * drawn) / n_batch": "(lambda drawn: (lambda drawn: np.asarray(X.T @ (residual * drawn) / n_batch))(drawn) * sample.n_rows / _count_batches(sample, params) / np.maximum(drawn.sum(axis=0), 1)"}, (*neighbors("dp_sgd_glm-tight"), "test_sampled_gaussian")),
    },
    "dpalgos/comparators/karwa_vadhan_mean.py": {
        "squares of columns get half of the noise that is planned": Fault("karwa_vadhan_mean", {"multiplier=noise.multiplier,": "multiplier=lambda part: noise.multiplier(part) / 2,"}, certified("karwa_vadhan_mean: interval-tight")),
        "Karwa-Vadhan's Gumbel noise is halved": Fault("_choose.draw", {"counts + 2 /": "counts + 1 /"}, law("karwa_vadhan_mean-tight", "karwa_vadhan_mean-paper")),
        "hardened bins of all columns are one list": Fault("_choose", {"choose_each(counts, draw, event, allowed=allowed": "choose(counts.reshape(-1, counts.shape[-1]), draw, event"}, "test_hardened_bins_are_chosen_column_by_column"),
    },
    "dpalgos/comparators/objective_perturbation_glm.py": {"how far a solver may end from the minimum is hardly covered": Fault("objective_perturbation_glm", {"noise.output * tolerance": "(noise.output * tolerance / 2)"}, "test_objective_perturbation")},
    "dpalgos/comparators/private_frank_wolfe_lasso.py": {"a vertex' score moves by half": Fault("score_sensitivity", {"n_rows)": "n_rows) / 2"}, witness("private_frank_wolfe_lasso-tight"))},
    "dpalgos/comparators/screened_sparse_glm.py": {
        "scores of a screening move by half": Fault("screened", {"ball_mean(bound": "ball_mean(bound / 2"}, neighbors("screened_sparse_regression-tight")),
    },
    "dpalgos/comparators/screened_sparse_regression.py": {
        "moments without the response": Fault("screened_sparse_regression", {"outer_product(np.sqrt(2) * ": "outer_product("}, witness("screened_sparse_regression-tight")),
    },
    "dpalgos/comparators/sheffet_ols.py": {"a sketch has half its ridge": Fault("sheffet_ols", {"least_ridge(params.epsilon, params.delta, rows": "(least_ridge(params.epsilon, params.delta, rows) / 2"}, certified("sheffet_ols-tight"))},
    "dpalgos/comparators/tukey_em.py": {
        "TukeyEM's check bears a model more than the volumes say": Fault("log_gaps", {"t - 2 -": "t - 1 -"}, "test_tukey_em"),
        "TukeyEM draws by twice the depth": Fault("Boxes.log_weights", {"epsilon * depth": "2 * (epsilon * depth)"}, "test_tukey_em"),
        "TukeyEM goes on without asking its check": Fault("tukey_em", {"log(2 * params.delta) / epsilon": "inf"}, "test_tukey_em"),
        "TukeyEM publishes a point whatever its check says": Fault("tukey_em.draw", {"np.where(passed, points, 0.0)": "points"}, "test_tukey_em"),
        "TukeyEM asks its check without noise": Fault("tukey_em", {'transcript.laplace(\n        distances, l1_sensitivity=distance_sensitivity(), epsilon=epsilon, label="distance"\n    )': '(transcript.laplace(distances, l1_sensitivity=distance_sensitivity(), epsilon=epsilon, label="distance"), distances)[1]'}, "test_tukey_em"),
        "the distance moves by half a model": Fault("distance_sensitivity", {"return 1.0": "return 0.5"}, witness("tukey_em-tight")),
    },
    "dpalgos/intervals/from_start.py": {
        "steps after an answer take less than their header says": Fault("reserved", {"taken * share": "0.5 * taken * share"}, _TABLES.format("adassp: interval-tight")),
        "an interval next to a minimum gets half of its noise": Fault("rest_budget", {"mu / factor": "(2 * (mu / factor))"}, certified("objective_perturbation_glm: interval-tight", "tukey_em: interval-tight")),
    },
    "dpalgos/intervals/regression.py": {
        "an interval's shares are not taken from the steps": Fault("interval_shares", {"**SHARES, **({} if np.isfinite(family.residual_bound) else RESIDUAL_SHARES": "part: share / 2 for part, share in {**SHARES, **({} if np.isfinite(family.residual_bound) else RESIDUAL_SHARES)}.items(", "**SHARES, **WIDE_SHARES, **({FAR: WIDE_FAR_SHARE} if family.is_linear else {}": "part: share / 2 for part, share in {**SHARES, **WIDE_SHARES, **({FAR: WIDE_FAR_SHARE} if family.is_linear else {})}.items(", "return {}": "return {part: share / 2 for part, share in {}.items()}"}, _TABLES.format("preconditioned_regression: interval-tight")),
        "a wide gradient moves as one that is clipped at its old level": Fault("_wide_step", {"ball_mean(level": "ball_mean(steps.level"}, witness("preconditioned_regression: interval, least squares-tight")),
    },
    "dpalgos/intervals/released.py": {
        "half of the noise of the steps is left out of an interval": Fault("center_of", {'np.sqrt(np.einsum("rt,tr->r", weights**2, steps.variances)': '(np.sqrt(np.einsum("rt,tr->r", weights ** 2, steps.noise_stds ** 2)) / 2'}, "test_an_interval_counts_every_part_of_its_error"),
        "the noise of the metric is left out of a nested model": Fault("ReleasedRegression.along", {"blurred + sampled": "sampled"}, "test_the_noise_of_the_metric_counts_as_far_as_something_is_left_out"),
        "sampling is left out of a nested model": Fault("ReleasedRegression.along", {"blurred + sampled": "blurred"}, "test_sampling_of_what_is_left_out_counts"),
        "what noise hides is left out of a nested model": Fault("ReleasedRegression.along", {"HIDDEN: unknown": "HIDDEN: 0 * unknown", "unresolved(self.curvature, outer)": "unresolved(self.curvature, 0 * outer)"}, "test_a_direction_that_noise_hides_has_no_nested_answer_either"),
        "sampling is left out of an interval": Fault("error_of", {" + moments / n_rows[:, None, None]": ""}, "test_an_interval_counts_every_part_of_its_error"),
        "what the curvature's noise adds is left out of an interval": Fault("error_of", {"noise + blurred": "noise"}, "test_an_interval_counts_the_noise_of_the_curvature"),
    },
    "dpalgos/answers/nested.py": {
        "a nested model is the whole one without some columns": Fault("nested", {"np.linalg.lstsq(metric[:, kept], metric, rcond=None)[0]": "np.eye(len(matrix))[kept]"}, "test_with_next_to_no_noise_it_is_least_squares_of_the_nested_model"),
        "the second order has the wrong sign": Fault("_second_order", {"found - first": "first - found"}, "test_a_nested_logistic_model_is_flatter_as_maximum_likelihood_is"),
    },
    "dpalgos/answers/contrasts.py": {
        "a contrast has the wrong sign": Fault("ContrastResults.statistic", {"self.effect - self.null": "self.effect + self.null"}, "test_a_test_is_that_of_the_interval"),
        "a joint test takes its hypotheses for independent": Fault("joint_test", {"correlation, off": "np.eye(len(off)), off"}, "test_a_joint_test_is_the_same_in_other_words"),
    },
    "dpalgos/answers/model.py": {
        "a nested model's intervals are those of the whole one": Fault("ReleasedModel._along", {"None if self.away is None else self.away.along(combinations)": "None"}, "test_sampling_of_what_is_left_out_counts"),
    },
    "dpalgos/intervals/half_widths.py": {"how unsure a variance is is left out of an interval": Fault("half_widths", {" + variance_std": ""}, "test_intervals")},
    "dpalgos/local/ldp_nldp_public.py": {"public rows are taken for the population": Fault("PublicMoments._sampling", {"lever[r] @ by_column * predicted).var(axis=1": "0 * (lever[r] @ by_column * predicted).var(axis=1)"}, "test_intervals")},
    "dpalgos/local/noisy_moments.py": {"the noise of local reports is left out of an interval": Fault("_interval", {"_standard_error(inverse, coef, noise": "(_standard_error(inverse, coef, noise) / 2"}, "test_intervals")},
    "dpalgos/local/randomizers.py": {
        "a half-space report is half as long as it must be": Fault("HalfSpaceRandomizer.scale", {"log_half))": "log_half)) / 2"}, "test_randomizers"),
        "a half-space report of research is for half of epsilon": Fault("HalfSpaceRandomizer._drawn", {"epsilon)": "epsilon / 2)"}, "test_randomizers"),
        "a cap of research is taken with log-odds that are .3 too high": Fault("CapRandomizer._drawn", {"_cap_log_odds": "_cap_log_odds + 0.3"}, "test_randomizers"),
        "a device's coin for the cap has log-odds that are .3 too high": Fault("CapRandomizer.exact", {"_cap_log_odds": "_cap_log_odds - 0.3"}, "test_randomizers"),
        "a device's half-space report is for 1.2 times epsilon": Fault("HalfSpaceRandomizer.exact", {"expit(-self": "expit(1.2 * -self"}, "test_randomizers"),
        "a device's cap begins further out than its coin assumes": Fault("CapRandomizer._rejected", {">= self.": ">= 1.05 * self."}, "test_randomizers"),
        "the cap of research and of large epsilon begins further out": Fault("CapRandomizer._component", {"scipy.special.ndtr(-": "ndtr(1.05 * -", "scipy.special.ndtr(": "ndtr(1.05 * "}, "test_randomizers"),
        "reports of large epsilon keep the last bits of the vector": Fault("CapRandomizer._inverted", {"(np.rint": "("}, "test_randomizers"),
        "the direction of a vector whose squares underflow is no unit vector": Fault("_SHORTEST", {"1e-60": "0.0"}, "test_randomizers"),
        "a vector of zeros has no direction": Fault("random_directions", {"np.inf))": "np.nan))"}, "test_randomizers"),
        "a secret coin whose probability is below its resolution never shows": Fault("secret_coins", {"ceil(chance * 2**": "int(chance * 2 ** "}, "test_randomizers"),
    },
    "dpalgos/tuning/sparsity.py": {"scores of models move by half of what they do": Fault("Loss.choose", {"interval(self.length": "interval(self.length / 2"}, witness("dp_sparse_mean: s by cross-validation-tight", "dp_sparse_mean: s by hold-out-tight"))},
    "dpalgos/user_level/aggregation.py": {
        "gradient steps of users take what an interval has spent": Fault("UserAggregation.__init__", {"budget or ": ""}, certified("user_level_regression: interval-tight")),
        "a single step on a single column of users spends all of epsilon beside its interval": Fault("UserAggregation.__init__", {"n_features == n_queries == 1 and budget is None": "(n_features == n_queries == 1)"}, "test_intervals"),
        "squares of a single column of users get half of the noise that is paid for": Fault("planned_halves", {'noise.epsilon_of("squares")': '2 * noise.epsilon_of("squares")'}, "test_what_an_interval_of_one_column_releases_is_covered[winsorized]"),
    },
    "dpalgos/user_level/first_order.py": {
        "curvatures of users are not clipped": Fault("ClippedUsers.mean_curvature", {"clip_factor(norm, self.curvature_bound": "np.ones_like(norm"}, witness("user_level_regression: interval-tight")),
        "users whose curvature is clipped are not counted": Fault("ClippedUsers.mean_curvature", {"norms[r] / self.curvature_bound": "0 * (lambda r: norms[r] / self.curvature_bound)(r)"}, "test_intervals"),
    },
    "dpalgos/user_level/user_level_phased_erm.py": {"users take part in the phases before theirs, too": Fault("user_level_phased_erm", {"one)] == t": "one)] >= t"}, neighbors("user_level_phased_erm-tight"))},
}
