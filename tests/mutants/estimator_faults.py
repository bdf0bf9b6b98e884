"""Planted faults of the estimators, by file."""

# fmt: off
from tests.mutants.changes import argument, call, name, number, operation, returns, value
from tests.mutants.fault import Fault, certified, law, neighbors, replayed, witness

_TABLES = "test_the_table_of_releases_is_what_a_form_releases[{}]"

ESTIMATOR_FAULTS = {
    "dpalgos/central/public_axes_mean.py": {
        "rows are not clipped": Fault("public_axes_mean.clipped", call("clip_factor", "np.ones_like({all})"), witness("public_axes_mean-tight")),
        "the mean along public axes moves by half": Fault("public_axes_mean", call("ball_mean_sensitivity", "{all} / 2"), witness("public_axes_mean-tight")),
    },
    "dpalgos/central/box_mean.py": {"a row moves means within bounds by half a width": Fault("box_mean", call("unit_mean_sensitivity", "{all} / 2"), witness("box_mean-tight")), "squares in a cube are not paid for": Fault("box_mean", call("split_epsilon", "{of}.epsilon", nth=0), certified("box_mean: interval-tight"))},
    "dpalgos/central/dp_glm.py": {"a GLM's gradient moves by its radius": Fault("gradient_sensitivity", returns("{all} / 2"), witness("dp_glm-tight"))},
    "dpalgos/models/families/gaussian.py": {"the gradient of one row only": Fault("TruncatedGaussian.gradient_radius", returns("{all} / 2"), neighbors("dp_linear_regression-tight"))},
    "dpalgos/central/dp_linear_regression.py": {"steps are not composed": Fault("planned_noise", argument("gaussian_multiplier", 1, "1"), certified("dp_linear_regression-tight"))},
    "dpalgos/central/dp_mean.py": {
        "the James-Stein factor is that of the true mean": Fault("dp_mean", (argument("gaussian", 0, "exact := {all}"), call("james_stein", "{0} * james_stein(exact, {1})[:1] / exact[:1]")), replayed("dp_mean: shrunk-tight")),
        "a released mean leaks the mean": Fault("dp_mean", call("gaussian", "({all} + {0}) / 2"), replayed("dp_mean: private quantiles-tight")),
        "a sensitivity is that of the largest row": Fault("dp_mean", argument("full", 1, "2 * min({all} / 2, sample.rows.largest)", nth=0), witness("dp_mean-tight")),
    },
    "dpalgos/central/dp_sparse_glm.py": {"an entry of the gradient moves by half of it": Fault("entry_sensitivity", returns("{all} / 2"), neighbors("dp_sparse_linear_regression: residual_bound=0.8-tight"))},
    "dpalgos/central/dp_sparse_mean.py": {
        "an entry moves by R/n": Fault("entry_sensitivity", returns("{all} / 2"), neighbors("dp_sparse_mean-tight", "dp_sparse_mean-paper")),
        "what is pruned depends on the true means": Fault("sparse_mean", argument("prune_noise", 0, "np.take_along_axis(_means(sample, params, transcript), {of}.support, axis=0)"), replayed("dp_sparse_mean: s by noise level-tight")),
    },
    "dpalgos/central/preconditioned_regression.py": {"what is asked depends on the spread of responses": Fault("preconditioned_regression", argument("schedule", 0, "{all} * min(1, 0.1 + float(sample.response().std()))"), "test_what_is_asked_depends_on_public_numbers_alone"), "an answer that is mostly noise is not shrunk": Fault("_TOO_FEW", value("1e-9"), "test_an_answer_about_very_few_rows_is_near_zero"), "rows count in their full length": Fault("_REACH", value("1e9"), "test_a_rare_category_in_a_unit_far_too_small_costs_no_more_than_it_could_explain")},
    "dpalgos/central/preconditioned_glm.py": {"steps of counts come from twice the mean": Fault("preconditioned_glm", name("_ABOVE_MEAN", "2.0"), "test_counts_are_explained_about_columns_off_their_origin")},
    "dpalgos/intervals/preconditioned_models.py": {"searched levels take the same share for few columns": Fault("_LEVEL_SHARE", value("0.0"), "test_no_release_about_few_columns_is_far_off"), "whole scores of rare events are clipped": Fault("_ENOUGH_ROWS", value("1e9"), "test_rare_events_keep_their_rate_where_scores_of_all_of_them_are_clipped"), "no steps are added where noise is small": Fault("PreconditionedGLMParams.n_steps", name("_LATE_STEPS", "0"), "test_rare_events_gain_from_more_epsilon_where_columns_are_skewed")},
    "dpalgos/models/secant_curvature.py": {"a steeper direction is forgotten": Fault("SecantCurvature.at", call("append", "None"), "test_a_direction_that_was_steeper_stays_so_and_a_flatter_one_does_not")},
    "dpalgos/comparators/adassp.py": {"the exact moments are solved": Fault("adassp", call("release_gram", "({0}, {all}[1])"), replayed("adassp-tight"))},
    "dpalgos/comparators/clipped_mean.py": {
        "spreads are what the rows say": Fault("_private_ball", call("gaussian", "({all}, mean_squares(sample, ball)[0])[1]", nth=1), replayed("clipped_mean: private radius-tight")),
        "mean squares of offsets move by 2r²/n at most, halved": Fault("spread_sensitivity", returns("{all} / 2"), neighbors("clipped_mean: private radius-tight")),
        "the search for the last ball costs one count": Fault("_private_ball", call("counts_needed", "1"), certified("clipped_mean: private radius-tight")),
        "a public center is added before the noise": Fault("clipped_mean", (argument("mean_offset", 1, "middle := {all}"), argument("gaussian", 0, "{all} + middle"), call("gaussian", "{all} - middle")), "test_a_public_center_far_from_its_radius_is_covered"),
    },
    "dpalgos/intervals/means.py": {
        "an interval is computed from the rows": Fault("note_ball_interval", argument("note_mean_interval", "squares", "ball.unit**2 * ball.radius**2 * spread.squares"), replayed("clipped_mean: interval-tight")),
        "half of the noise is left out of a mean's interval": Fault("note_mean_interval", argument("asarray", 0, "{all} / 2", nth=0), "test_intervals"),
        "shares of an interval are left out of the budget": Fault("MeanInterval.interval_shares", returns("{{}}"), certified("clipped_mean: interval-tight")),
    },
    "dpalgos/comparators/double_noise_newton_glm.py": {
        "a direction moves by half of what it does": Fault("direction_sensitivity", returns("{all} / 2"), neighbors("double_noise_newton_glm-tight")),
        "the least curvature follows the true trace": Fault("double_noise_newton_glm", (argument("gaussian", 0, "exact := {all}", nth=1), argument("_least_curvature", 0, "exact[0]")), replayed("double_noise_newton_glm-tight")),
        "rows are not clipped for the curvature": Fault("_mean_curvature", call("clip_rows_l2", "{0}"), neighbors("double_noise_newton_glm-tight")),
    },
    "dpalgos/comparators/binagg_regression.py": {
        "a row that moves within a box moves its sums as between boxes": Fault("sums_sensitivity", call("maximum", "{0}"), witness("binagg_regression-tight")),
        "a row is in one box only": Fault("box_counts_sensitivity", returns("{all} / np.sqrt(2)"), witness("binagg_regression-tight")),
        "entries are not clipped before they are summed": Fault("sums_in_boxes.cells", call("clip", "{0}", nth=0), neighbors("binagg_regression-tight")),
        "halves of all levels cost one count": Fault("grown_boxes", argument("gaussian_multiplier", 1, "1"), certified("binagg_regression-tight")),
    },
    "dpalgos/comparators/hessian_mixing.py": {
        "a mixed sketch has half its ridge": Fault("hessian_mixing", argument("gaussian_sketch", 0, "{all} - ridge / 2 * np.eye(d)"), neighbors("hessian_mixing-tight")),
        "rows are not clipped for the products": Fault("hessian_mixing", argument("clipped_residual_gradient", "row_bound", "None"), neighbors("hessian_mixing-tight")),
        "the last sketches are not paid for": Fault("planned_noise.events", operation("n_iterations", "{left}", nth=1), certified("hessian_mixing-tight")),
    },
    "dpalgos/comparators/dp_sgd_glm.py": {
        "a row is in the batches of all later turns, too": Fault("_steps_in_turn", operation("==", "{left} >= {right}"), neighbors("dp_sgd_glm: batches in turn-tight")),
        "a step on random rows is divided by what was drawn": Fault("_random_steps.released", argument("gaussian_of_drawn_rows", 0, "lambda drawn: {all}(drawn) * sample.n_rows / _count_batches(sample, params) / np.maximum(drawn.sum(axis=0), 1)"), (*neighbors("dp_sgd_glm-tight"), "test_sampled_gaussian")),
    },
    "dpalgos/comparators/karwa_vadhan_mean.py": {
        "squares of columns are left out of what is planned": Fault("planned_noise", call("least_noise", "(lambda noise: noise | {{part: noise['mean'] for part in shares if part not in kinds}})(least_noise({0}, selections={selections}, gaussians={{'mean': 1}}))"), certified("karwa_vadhan_mean: interval-tight")),
        "Karwa-Vadhan's Gumbel noise is halved": Fault("_choose.draw", number(2, 1), law("karwa_vadhan_mean-tight", "karwa_vadhan_mean-paper")),
        "hardened bins of all columns are one list": Fault("_choose", call("choose_each", "{of}.choose({0}.reshape(-1, {0}.shape[-1]), {1}, {2})"), "test_hardened_bins_are_chosen_column_by_column"),
    },
    "dpalgos/comparators/objective_perturbation_glm.py": {"how far a solver may end from the minimum is hardly covered": Fault("objective_perturbation_glm", operation("output", "{all} / 2"), "test_objective_perturbation")},
    "dpalgos/comparators/private_frank_wolfe_lasso.py": {"a vertex' score moves by half": Fault("score_sensitivity", returns("{all} / 2"), witness("private_frank_wolfe_lasso-tight"))},
    "dpalgos/comparators/screened_sparse_glm.py": {
        "scores of a screening move by half": Fault("score_sensitivity", returns("{all} / 2"), neighbors("screened_sparse_regression-tight")),
        "a fit on selected columns spends the whole budget": Fault("_preconditioned", argument("PreconditionedGLMParams", "epsilon", "selected.params.epsilon"), certified("screened_sparse_glm: preconditioned fit-tight")),
    },
    "dpalgos/comparators/screened_sparse_regression.py": {
        "ranks among chosen columns cost nothing": Fault("rank_sensitivity", number(2, 1), neighbors("screened_sparse_regression: rank-tight")),
        "columns are chosen by their ranks without noise": Fault("_screened_by_rank", argument("gumbel_top_k", "noise_multiplier", "noise_multiplier / 2"), certified("screened_sparse_regression: rank-tight")),
        "moments without the response": Fault("moment_sensitivity", returns("{all} / 2"), witness("screened_sparse_regression-tight")),
    },
    "dpalgos/comparators/sheffet_ols.py": {"a sketch has half its ridge": Fault("sheffet_ols", call("least_ridge", "{all} / 2"), certified("sheffet_ols-tight"))},
    "dpalgos/comparators/tukey_em.py": {
        "TukeyEM's check bears a model more than the volumes say": Fault("log_gaps", number(2, 1), "test_tukey_em"),
        "TukeyEM draws by twice the depth": Fault("Boxes.log_weights", operation("*", "2 * {all}"), "test_tukey_em"),
        "TukeyEM goes on without asking its check": Fault("tukey_em", operation(">", "{left} > -np.inf"), "test_tukey_em"),
        "TukeyEM publishes a point whatever its check says": Fault("tukey_em.draw", call("where", "{1}"), "test_tukey_em"),
        "TukeyEM asks its check without noise": Fault("tukey_em", call("laplace", "({all}, {0})[1]"), "test_tukey_em"),
        "the distance moves by half a model": Fault("distance_sensitivity", returns("0.5"), witness("tukey_em-tight")),
    },
    "dpalgos/intervals/from_start.py": {
        "steps after an answer take less than their header says": Fault("IntervalFromStart.reserved", returns("{{part: 0.5 * share for part, share in {all}.items()}}"), _TABLES.format("adassp: interval-tight")),
        "an interval next to a minimum gets half of its noise": Fault("IntervalFromStart.rest_budget", operation("factor", "2 * {all}", nth=0), certified("objective_perturbation_glm: interval-tight", "tukey_em: interval-tight")),
    },
    "dpalgos/intervals/regression.py": {
        "an interval's shares are not taken from the steps": Fault("RegressionInterval.interval_shares", returns("{{part: share / 2 for part, share in {all}.items()}}"), _TABLES.format("preconditioned_regression: interval-tight")),
        "half of the noise of the steps is left out of an interval": Fault("center_of", call("sqrt", "{all} / 2"), "test_an_interval_counts_every_part_of_its_error"),
        "sampling is left out of an interval": Fault("error_of", argument("CoefError", 0, "noise + blurred"), "test_an_interval_counts_every_part_of_its_error"),
        "what the curvature's noise adds is left out of an interval": Fault("error_of", argument("CoefError", 0, "noise + sampling"), "test_an_interval_counts_the_noise_of_the_curvature"),
        "a wide gradient moves as one that is clipped at its old level": Fault("_wide_step", argument("ball_mean_sensitivity", 0, "steps.level"), witness("preconditioned_regression: interval, least squares-tight")),
    },
    "dpalgos/intervals/half_widths.py": {"how unsure a variance is is left out of an interval": Fault("half_widths", argument("sqrt", 0, "{left}", nth=0), "test_intervals")},
    "dpalgos/local/ldp_nldp_public.py": {"public rows are taken for the population": Fault("PublicMoments._sampling", call("var", "0 * {all}"), "test_intervals")},
    "dpalgos/local/noisy_moments.py": {"the noise of local reports is left out of an interval": Fault("_interval", call("_standard_error", "{all} / 2"), "test_intervals")},
    "dpalgos/local/randomizers.py": {
        "a half-space report is half as long as it must be": Fault("HalfSpaceRandomizer.scale", returns("{all} / 2"), "test_randomizers"),
        "a half-space report of research is for half of epsilon": Fault("HalfSpaceRandomizer._drawn", argument("expit", 0, "{all} / 2"), "test_randomizers"),
        "a cap of research is taken with log-odds that are .3 too high": Fault("CapRandomizer._drawn", argument("expit", 0, "{all} + 0.3"), "test_randomizers"),
        "a device's coin for the cap has log-odds that are .3 too high": Fault("CapRandomizer.exact", argument("expit", 0, "{all} - 0.3"), "test_randomizers"),
        "a device's half-space report is for 1.2 times epsilon": Fault("HalfSpaceRandomizer.exact", argument("expit", 0, "1.2 * {all}"), "test_randomizers"),
        "a device's cap begins further out than its coin assumes": Fault("CapRandomizer._rejected", operation(">=", "{left} >= 1.05 * {right}"), "test_randomizers"),
        "the cap of research and of large epsilon begins further out": Fault("CapRandomizer._component", (call("ndtr", "ndtr(1.05 * {0})", nth=0), call("ndtr", "ndtr(1.05 * {0})", nth=1)), "test_randomizers"),
        "reports of large epsilon keep the last bits of the vector": Fault("CapRandomizer._inverted", call("rint", "{0}"), "test_randomizers"),
        "the direction of a vector whose squares underflow is no unit vector": Fault("_SHORTEST", value("0.0"), "test_randomizers"),
        "a vector of zeros has no direction": Fault("random_directions", name("inf", "np.nan"), "test_randomizers"),
        "a secret coin whose probability is below its resolution never shows": Fault("secret_coins", call("ceil", "int({0})"), "test_randomizers"),
    },
    "dpalgos/tuning/sparsity.py": {"scores of models move by half of what they do": Fault("Loss.choose", argument("exponential_mechanism", "sensitivity", "{all} / 2"), witness("dp_sparse_mean: s by cross-validation-tight", "dp_sparse_mean: s by hold-out-tight"))},
    "dpalgos/user_level/aggregation.py": {
        "gradient steps of users take what an interval has spent": Fault("UserAggregation.__init__", operation("or", "{right}"), certified("user_level_regression: interval-tight")),
        "a single step on a single column of users spends all of epsilon beside its interval": Fault("UserAggregation.__init__", operation("and", "{left}"), "test_intervals"),
        "squares of a single column of users get half of the noise that is paid for": Fault("planned_halves", returns("(lambda each, squares: (each, 2 * squares))(*{all})"), "test_what_an_interval_of_one_column_releases_is_covered[winsorized]"),
    },
    "dpalgos/user_level/first_order.py": {
        "curvatures of users are not clipped": Fault("ClippedUsers.mean_curvature", call("clip_factor", "np.ones_like({0})"), witness("user_level_regression: interval-tight")),
        "users whose curvature is clipped are not counted": Fault("ClippedUsers.mean_curvature", argument("_see", 0, "lambda r: 0 * {all}(r)"), "test_intervals"),
    },
    "dpalgos/user_level/user_level_phased_erm.py": {"users take part in the phases before theirs, too": Fault("user_level_phased_erm", operation("==", "{left} >= {right}"), neighbors("user_level_phased_erm-tight"))},
}
