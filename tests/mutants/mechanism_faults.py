"""Planted faults of mechanisms, noise, releases, accounting and rows, by file."""

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
from tests.mutants.fault import Fault, batch, certified, hardened, law, neighbors, order, replayed, witness

MECHANISM_FAULTS = {
    "dpalgos/accounting/open_budget.py": {
        "an open budget is never exceeded": Fault(
            "Budget._check",
            condition("_proved", "False"),
            "test_a_budget_sums_calls_and_withholds_what_exceeds_it",
        ),
        "an open budget forgets what was spent": Fault(
            "charged_to_open_budgets",
            without("append"),
            "test_a_budget_sums_calls_and_withholds_what_exceeds_it",
        ),
        "the innermost budget alone is charged": Fault(
            "charged_to_open_budgets", call("list", "{0}[-1:]"), "test_every_open_budget_is_charged"
        ),
        "events of an answer that ends in an error are not counted": Fault(
            "charged_to_open_budgets",
            argument("append", 0, "list({all})"),
            "test_an_answer_that_ends_in_an_error_stays_charged",
        ),
        "a budget that holds Gaussian answers alone takes others": Fault(
            "Budget._proved", condition("gaussian_only", "False"), "test_filters"
        ),
        "answers that protect rows count in a budget of users": Fault(
            "Budget._check", condition("unit_of_privacy", "False"), "test_a_budget_refuses_what_it_cannot_sum"
        ),
        "an open budget counts in its own thread alone": Fault(
            "charged_to_open_budgets",
            name("_OPEN", "([] if threading.current_thread().name != 'MainThread' else _OPEN)", every=True),
            "test_a_budget_counts_in_every_thread",
        ),
        "a process that was started inside a budget answers": Fault(
            "_refuse_other_processes",
            condition("opened_by", "False"),
            "test_a_process_that_was_started_inside_a_budget_is_refused",
        ),
    },
    "dpalgos/accounting/composition.py": {
        "repeated Gaussian releases count once": Fault(
            "total_mu", operation("count", "1 / {right}"), "test_both_accountants_agree"
        ),
        "selections cost half in the accountant": Fault(
            "_renyi", number(8, 16), "test_both_accountants_agree"
        ),
        "what all people are told of is not charged to disjoint groups": Fault(
            "by_group", operation("+", "{right}"), "test_randomizers"
        ),
        "steps that may fail are free": Fault(
            "_without_failures", operation("-", "{left}"), "test_both_accountants_agree"
        ),
        "selections cost half in the odometer": Fault("_cost", number(8, 16), "test_hardened_release"),
        "failures are taken from what was set aside for others": Fault(
            "Spending.epsilon", name("failure_delta", "None", nth=1), "test_filters"
        ),
        "of two failures the larger one counts": Fault(
            "Spending.__add__",
            argument("Spending", "failure", "max(self.failure, other.failure)"),
            "test_the_failures_of_two_spendings_add_up",
        ),
        "of disjoint groups the cheapest is charged": Fault(
            "spending",
            tuple(call("max", "min({0})", nth=0) for _ in range(3)),
            "test_of_disjoint_groups_the_dearest_one_is_charged_whatever_their_order",
        ),
    },
    "dpalgos/accounting/gaussian_dp.py": {
        "the Gaussian tail is one-sided": Fault(
            "gaussian_delta", argument("log_ndtr", 0, "{left}", nth=0), "test_accounting"
        )
    },
    "dpalgos/accounting/pld.py": {
        "losses are rounded down": Fault(
            "_dominating_pair", call("ceil", "np.floor({0})"), "test_accounting"
        ),
        "where losses are large the grid is coarser than a ten-thousandth of them": Fault(
            "_interval", argument("max", 1, "10 * {all}", nth=0), "test_accounting"
        ),
        "random rows are accounted for adding one": Fault(
            "sampled_gaussian_losses", number(2, 4), "test_sampled_gaussian"
        ),
    },
    "dpalgos/api.py": {
        "a delta that publishes somebody passes without a warning": Fault(
            "_warn_of_weak_promises",
            condition("people", "False"),
            "test_promises_that_protect_nobody_are_warned_about",
        ),
        "rows beyond all levels pass without a warning": Fault(
            "_warn_of_units", condition("any", "False"), "test_raw_units_are_warned_about"
        ),
    },
    "dpalgos/hardened_release.py": {
        "an estimator that fails on some rows is released": Fault(
            "releasable", condition("no_release", "False"), "test_hardened_release"
        ),
        "a release is planned for a thousand rows": Fault(
            "made_up_rows", argument("full", 1, "float(min(n_rows, 1000))"), "test_hardened_release"
        ),
    },
    "dpalgos/audit/foreign.py": {
        "the event is tested on the runs that chose it": Fault(
            "audit_callable", argument("lens", 0, "seen[0]"), "test_foreign"
        ),
        "failures are not looked at": Fault(
            "_Lens.__call__", name(".failed", "0 * {of}.failed"), "test_foreign"
        ),
        "answers without a number pass": Fault("Answers.silent", returns("False"), "test_foreign"),
    },
    "dpalgos/release/hardened_noise.py": {
        "whether a release is refused depends on what no noise covers": Fault(
            "_on_grid",
            call("clip", "{0} if (abs({0}) < {2}).all() else _single(0.0)"),
            (
                "test_a_value_beyond_the_grid_is_refused_by_its_noisy_answer_alone",
                "test_a_selection_is_answered_whatever_its_scores",
            ),
        ),
        "sums over very many rows leave the grid": Fault(
            "grid_step",
            call("max", "{0}"),
            "test_sums_over_many_rows_fit_the_grid_and_their_rounding_is_covered",
        ),
        "the rounding of sums over very many rows is not covered": Fault(
            "SecureTranscript.noise_std",
            name("._rounding", "1.0"),
            "test_sums_over_many_rows_fit_the_grid_and_their_rounding_is_covered",
        ),
        "several selections are charged as one": Fault(
            "SecureTranscript.choose_each",
            argument("_charged_selection", 0, "replace({all}, count=1)"),
            "test_selections_of_several_columns_are_charged_one_by_one",
        ),
        "integers of a seeded generator are added": Fault(
            "box_sampler.add_noise",
            call("randbelow", "__import__('random').Random(0).randrange({0})", nth=0),
            "test_integers_in_a_cube_are_those_of_the_operating_system",
        ),
        "hardened noise in a cube is that of one column fewer": Fault(
            "box_sampler.half_width", number(1, 0, nth=0), "test_box_mean"
        ),
        "the grid's rounding of noise in a cube is not covered": Fault(
            "SecureTranscript.box_scale", operation("+", "{left} / 2"), hardened("box_mean")
        ),
        "hardened noise in a cube ignores the inflation": Fault(
            "SecureTranscript.box_scale",
            operation("_inflation", "{right}"),
            "test_inflation_widens_the_noise_by_what_it_lowers_the_cost",
        ),
        "hardened noise is counted without its inflation": Fault(
            "SecureTranscript.noise_std", operation("_inflation", "{left}"), "test_intervals"
        ),
        "the grid's rounding is not covered": Fault(
            "SecureTranscript.noise_std", operation("+", "{left} / 2"), hardened("dp_mean", "adassp")
        ),
        "hardened Laplace noise is halved": Fault(
            "SecureTranscript.laplace", operation("_inflation", "{all} / 2", nth=0), "test_hardened_release"
        ),
        "hardened choices count one direction": Fault(
            "SecureTranscript._charged_selection", operation("*", "{right}", nth=0), "test_hardened_release"
        ),
        "the grid is finer than float64": Fault(
            "_LARGEST_INDEX",
            value("2.0**62"),
            "test_a_value_that_float64_cannot_resolve_on_the_grid_is_refused",
        ),
        "hardened noise is not inflated": Fault(
            "SecureTranscript.gaussian", operation("_inflation", "{left}"), "test_hardened_release"
        ),
    },
    "dpalgos/accounting/risk.py": {
        "the naive posterior is stated": Fault("risk_of_profile", call("log1p", "0.0"), "test_risk")
    },
    "dpalgos/mechanisms/binned_fit.py": {
        "the fit of a row counts in one bin": Fault(
            "fit_sensitivity", number(10, 5), witness("preconditioned_regression: diagnostics-tight")
        ),
        "a row leaves its bin and enters none": Fault(
            "bins_sensitivity", number(2, 1), witness("preconditioned_glm: diagnostics, logistic-tight")
        ),
    },
    "dpalgos/mechanisms/clip_levels.py": {
        "the radius is found without noise": Fault(
            "search_by_counts",
            call("gaussian", "({all}, {0})[1]"),
            replayed("clipped_mean: private radius-tight"),
        ),
        "the searches for the scores' level cost one count": Fault(
            "GLMLevels._searched", operation("counts_needed", "1"), certified("preconditioned_glm-tight")
        ),
    },
    "dpalgos/mechanisms/noisy_iht.py": {
        "peeling takes a coordinate twice": Fault("peeling.draw", without("arange"), "test_top_k")
    },
    "dpalgos/mechanisms/private_range.py": {
        "bins are drawn with twice the ε": Fault(
            "_runs", operation("epsilon", "{left}"), "test_private_range"
        ),
        "one range is charged for all columns": Fault(
            "private_range", argument("BoundedRangeEvent", "count", "1"), certified("user_level_mean-tight")
        ),
    },
    "dpalgos/mechanisms/public_coordinates.py": {
        "the question about public rows gets half of its noise": Fault(
            "public_coordinates",
            argument("gaussian", "noise_multiplier", "{all} / 2"),
            certified("preconditioned_regression: public rows-tight"),
        ),
        "rows in public coordinates are not clipped": Fault(
            "public_coordinates",
            argument("clipped_second_moments", 2, "1e9 * {all}"),
            neighbors("preconditioned_regression: public rows-tight"),
        ),
        "the question about public rows never gets a larger share": Fault(
            "conclusive_share",
            returns("LEAST_SHARE"),
            "test_a_question_that_noise_would_decide_gets_a_larger_share",
        ),
        "the true moments decide whether public rows are right": Fault(
            "public_coordinates",
            argument("unsvec", 0, "svec(total / n_rows[:, None, None])"),
            "test_the_release_alone_decides",
        ),
        "a wrong shape is used": Fault(
            "_FAR", value("3.0"), "test_a_wrong_shape_is_not_used_and_costs_little"
        ),
    },
    "dpalgos/mechanisms/private_origin.py": {
        "the search for units costs one count": Fault(
            "private_origin",
            name("UNIT_COUNTS", "1"),
            certified("preconditioned_regression: private units-tight"),
        ),
        "centers are the means of all rows": Fault(
            "_means",
            returns("{all} + sample.response().mean()"),
            replayed("preconditioned_regression: private units, intercept-tight"),
        ),
        "rows reach farther about their medians than noise covers": Fault(
            "_means",
            argument("clipped_row_sums", 3, "2 * {all}"),
            witness("preconditioned_regression: private units, intercept-tight"),
        ),
        "medians of several columns move by one in all": Fault(
            "_medians",
            argument("counts_sensitivity", 0, "1"),
            witness("preconditioned_regression: private units, intercept-tight"),
        ),
        "the mean response moves by half of the largest": Fault(
            "mean_response_sensitivity",
            returns("{all} / 2"),
            witness(
                "preconditioned_glm: constant, logistic-tight", "preconditioned_glm: constant, poisson-tight"
            ),
        ),
        "exposures move their mean by a half": Fault(
            "mean_exposure_sensitivity",
            returns("{all} / 2"),
            witness("preconditioned_glm: constant, offset, poisson-tight"),
        ),
        "the mean exposure is not cut to the public bounds": Fault(
            "private_typical_offset",
            call("exp", "np.exp(10 * (group.offset - high) + 20)", nth=0),
            "test_a_row_that_differs_in_its_exposure_moves_no_release_by_more_than_charged",
        ),
        "centers are not taken off": Fault(
            "Origin.before",
            condition("any", "True"),
            "test_with_an_intercept_the_origin_of_the_columns_does_not_matter",
        ),
        "units are what the rows say": Fault(
            "private_units",
            returns("{all} * (1 + np.abs(sample.response()).mean())"),
            replayed("preconditioned_regression: private units-tight"),
        ),
        "counts of several columns move by one in all": Fault(
            "counts_sensitivity", returns("1.0"), witness("preconditioned_regression: private units-tight")
        ),
    },
    "dpalgos/mechanisms/private_whitening.py": {
        "whitening moments move by the square of the level": Fault(
            "moments_sensitivity",
            returns("{all} / np.sqrt(2)"),
            witness(
                "preconditioned_glm: public levels-tight", "preconditioned_regression: public levels-tight"
            ),
        )
    },
    "dpalgos/mechanisms/quantiles.py": {
        "ranks move by a half": Fault(
            "rank_sensitivity", returns("0.5"), witness("dp_mean: private quantiles-tight")
        )
    },
    "dpalgos/tuning/truncation.py": {
        "the range of a quantile ends at the largest value": Fault(
            "_quantiles",
            argument("exponential_quantiles", "upper", "max({all}, abs(values).max())"),
            replayed("dp_mean: private quantiles-tight"),
        )
    },
    "dpalgos/mechanisms/random_stopping.py": {
        "random stopping costs two scores": Fault("SCORE_FACTOR", value("2.0"), "test_random_stopping"),
        "draws stop at a cap": Fault("number_of_draws", returns("min({all}, 50)"), "test_random_stopping"),
    },
    "dpalgos/mechanisms/for_intervals/mean_residual.py": {
        "the noise of the mean residual is left out of an interval": Fault(
            "release_mean_residual",
            argument("InterceptShift", "variance", "0.0"),
            "test_an_interval_counts_every_part_of_its_error",
        ),
        "the mean residual is used without its noise": Fault(
            "release_mean_residual",
            (
                argument("gaussian", 0, "exact := {all}", nth=0),
                argument("InterceptShift", "moved", "one * level * exact[0]"),
            ),
            replayed("preconditioned_regression: interval-tight"),
        ),
        "residuals are not cut": Fault(
            "residual_sensitivity", returns("{all} / 2"), witness("preconditioned_regression: interval-tight")
        ),
    },
    "dpalgos/mechanisms/scored_steps.py": {
        "a second whitening is not paid for": Fault(
            "Schedule.step_shares",
            operation("whitened_share", "{left}"),
            certified("preconditioned_regression: whitened twice-tight"),
        ),
        "searches for the gradients' levels are not paid for": Fault(
            "Schedule.count_multiplier",
            operation("n_searched_steps", "{left}"),
            certified("preconditioned_regression-tight"),
        ),
        "levels for few rows are searched": Fault(
            "_FEW_ROWS",
            value("1e-9"),
            "test_few_rows_are_clipped_at_public_levels_for_counts_would_be_noise",
        ),
        "steps are combined from the true gradients": Fault(
            "gradient_steps",
            (argument("gaussian", 0, "exact := {all}"), argument("append", 0, "exact", nth=1)),
            replayed("preconditioned_regression-tight"),
        ),
    },
    "dpalgos/mechanisms/for_intervals/spread.py": {
        "squares of entries move by half of what they do": Fault(
            "square_sensitivity",
            returns("{all} / 2"),
            witness("dp_mean: interval-tight", "karwa_vadhan_mean: interval-tight"),
        ),
        "second moments for an interval are not paid for": Fault(
            "release_second_moments",
            argument("gaussian", "noise_multiplier", "{all} / 2"),
            certified("clipped_mean: interval-tight", "adassp: interval-tight"),
        ),
    },
    "dpalgos/mechanisms/for_intervals/score_curvature.py": {
        "curvature moves by its level": Fault(
            "curvature_sensitivity",
            returns("{all} / np.sqrt(2)"),
            witness("preconditioned_glm: interval-tight"),
        ),
        "the search for the curvature's level costs one count": Fault(
            "release_curvature",
            call("gaussian_multiplier", "{of}.gaussian_multiplier({0})", nth=1),
            certified("preconditioned_regression: interval-tight"),
        ),
    },
    "dpalgos/mechanisms/for_intervals/tails.py": {
        "shares by size move by half of what they do": Fault(
            "tail_sensitivity",
            returns("{all} / 2"),
            witness("dp_mean: interval-tight", "preconditioned_regression: interval, least squares-tight"),
        ),
        "columns' own shares by size come for nothing": Fault(
            "tail_sensitivity", number(3, 2), witness("dp_mean: interval-tight")
        ),
        "the noise is subtracted from the shares of clipped rows": Fault(
            "Tail._bound", name("deviations", "(-deviations)", every=True), "test_tails"
        ),
        "outliers that the noise hides are left out": Fault(
            "Tail._bound", operation("rare", "0.0"), "test_tails"
        ),
        "cells that were moved to a bound are not counted": Fault(
            "counts_by_level", condition("FAR", "False"), "test_intervals"
        ),
    },
    "dpalgos/mechanisms/top_k.py": {
        "released coordinates move by λ together": Fault(
            "selected_l2_sensitivity", call("sqrt", "1.0"), "test_top_k"
        ),
        "Laplace noise of half its scale": Fault(
            "release_laplace", call("laplace", "{all} / 2"), law("dp_sparse_mean-paper")
        ),
        "one Gumbel scale for two choices": Fault(
            "gumbel_top_k", call("check_sensitivity", "{all} / 2"), law("dp_sparse_mean-tight")
        ),
    },
    "dpalgos/mechanisms/winsorized_mean.py": {
        "a user moves a truncated mean by half of the interval": Fault(
            "truncated_mean_sensitivity", returns("{all} / 2"), witness("user_level_mean-paper")
        ),
        "the sum of users' weights is not paid for": Fault(
            "weighted_mean_sensitivity",
            returns("2 * radius / n_rows"),
            witness("user_level_mean: weighted-tight"),
        ),
        "weighted offsets of users are not clipped": Fault(
            "weighted_winsorized_mean",
            call("clip_rows_l2", "{0}"),
            neighbors("user_level_mean: weighted-tight"),
        ),
    },
    "dpalgos/models/whitened_scores.py": {
        "scores are not clipped": Fault(
            "ScoresAt.clipped_mean",
            argument("clipped_row_sums", 3, "1e9 * {all}"),
            neighbors("preconditioned_glm: public levels-tight"),
        ),
        "curvature is not clipped": Fault(
            "CurvatureAt.clipped_mean",
            call("clip_factor", "1"),
            neighbors("preconditioned_glm: interval-tight"),
        ),
    },
    "dpalgos/params.py": {
        "a config may set delta": Fault("_OF_THE_RUN", text("delta", "no keyword"), "test_refusals")
    },
    "dpalgos/release/checks.py": {
        "noise may vanish": Fault(
            "check_event",
            operation("tiny", "{left} >= 0"),
            "test_a_transcript_refuses_what_no_noise_can_cover",
        ),
        "bounds may be absurd": Fault(
            "check_bound",
            name("SMALLEST_BOUND", "0.0", nth=0),
            "test_absurd_bounds_are_refused_by_name[dp_mean]",
        ),
    },
    "dpalgos/release/noise_source.py": {
        "noise in a cube is that of one column fewer": Fault(
            "Noise.box", argument("laplace", 0, "{left}"), law("box_mean-tight")
        ),
        "Laplace noise has half its scale": Fault("_laplace", call("log", "{all} / 2"), "test_noise_source"),
        "Laplace noise has one sign": Fault(
            "_laplace", call("copysign", "np.abs({0}, out={out})"), "test_noise_source"
        ),
        "all replicates share their noise": Fault(
            "Noise._fresh", argument("fill_draws", 1, "self._rngs[0]"), batch("dp_mean-tight")
        ),
    },
    "dpalgos/release/transcript.py": {
        "half of the squares' noise is drawn": Fault(
            "Transcript.box", call("box", "{all} / 2"), law("box_mean: interval-tight")
        ),
        "noise is drawn before the charge": Fault(
            "Transcript.gaussian",
            argument("_publish", 1, "(lambda drawn: lambda: drawn)({all}())"),
            order("dp_mean-tight"),
        ),
        "the second release has half its noise": Fault(
            "Transcript.gaussian",
            call("normal", "{all} / (2 if len(self.events) == 2 else 1)"),
            law("adassp-tight"),
        ),
        "random rows are drawn more often than is charged": Fault(
            "Transcript.gaussian_of_drawn_rows",
            argument("drawn", 1, "min(1.0, 1.2 * {all})"),
            "test_sampled_gaussian",
        ),
        "random rows are drawn once for all steps": Fault(
            "Transcript.gaussian_of_drawn_rows",
            argument("_drawn_rows", 0, "lambda: vars(self).setdefault('kept', {all}())"),
            "test_sampled_gaussian",
        ),
    },
    "dpalgos/rows/blocks.py": {
        "a sample keeps the caller's array": Fault(
            "unchanging", call("copy", "{of}.view()"), "test_blocked_design"
        ),
        "streamed rows are not checked in later passes": Fault(
            "StreamedRows.pieces", without("_check_values"), "test_blocked_design"
        ),
        "streamed columns are not checked in later passes": Fault(
            "StreamedRows.column_pieces", condition("LARGEST_VALUE", "False"), "test_blocked_design"
        ),
        "responses that come along are not checked": Fault(
            "StreamedRows._check_parts", without("_check_magnitudes"), "test_blocked_design"
        ),
        "a stream may grow": Fault(
            "StreamedRows._check_values", condition("largest_magnitude", "False"), "test_blocked_design"
        ),
        "a column does not count in the norm": Fault("_row_squares", number(1, 2), "test_row_moments"),
        "large values of a stream are not looked at": Fault(
            "_check_magnitudes", condition("LARGEST_VALUE", "{left}"), "test_blocked_design"
        ),
    },
    "dpalgos/rows/partitions.py": {
        "partial sums are added without what additions lose": Fault(
            "total_of", returns("total"), "test_blocked_design"
        ),
        "a partition is moved to the place of the first": Fault(
            "PartitionedRows._placed", call("len", "0"), "test_blocked_design"
        ),
    },
    "dpalgos/rows/passes.py": {
        "of blocks whose factors are computed together the second gets those of the first": Fault(
            "row_sums",
            call("split", "[{0}[:, : part.shape[1]] for part in {all}]", nth=0),
            "test_shared_passes",
        )
    },
    "dpalgos/rows/sample.py": {
        "replicates ignore which rows they use": Fault(
            "Sample.mean_of", condition("float_mask", "True", nth=1), batch("sample_mean-None")
        ),
        "partial sums are of all rows of a partition": Fault(
            "Sample.partials",
            condition("alone", "not isinstance(self.rows, PartitionedRows)"),
            "test_partial_sums_made_elsewhere_give_the_same_bits[dp_sgd_glm: batches in turn-tight]",
        ),
    },
    "dpalgos/rows/users.py": {
        "the smallest rows of a user count": Fault(
            "UserRows.at_most",
            call("lexsort", "np.lexsort((self.X[:, 0], codes))"),
            "test_rows_beyond_the_most_that_count_are_left_out_whatever_they_hold",
        ),
        "which rows of a user count depends on other users": Fault(
            "UserRows.at_most",
            call("default_rng", "np.random.default_rng(len(codes))"),
            "test_rows_beyond_the_most_that_count_are_left_out_whatever_they_hold",
        ),
        "an array's ids of users are compared as they are written": Fault(
            "_canonical_id", call("normalize", "{1}"), "test_an_estimate_counts_users_as_a_release_does"
        ),
    },
    "dpalgos/steps/clipping.py": {
        "offsets from a public center are not clipped": Fault(
            "mean_offset.clipped", without("maximum"), neighbors("clipped_mean: public center-tight")
        ),
        "squares of entries are not cut": Fault(
            "RelativeSquares.__call__", call("clip", "{0}"), neighbors("box_mean: interval-tight")
        ),
        "a user moves a ball's mean by its radius": Fault(
            "ball_mean_sensitivity", returns("{all} / 2"), witness("user_level_mean: clipped-tight")
        ),
        "a mean moves by its widest column": Fault(
            "box_mean_sensitivity", call("norm", "{0}.max(axis={axis})"), witness("dp_mean-tight")
        ),
        "users' means are not clipped": Fault(
            "ball_mean", call("clip_factor", "0 * {all} + 1"), neighbors("user_level_mean: clipped-tight")
        ),
        "residuals are not clipped": Fault(
            "clipped_residual_gradient.at",
            without("clip"),
            neighbors("boosted_adassp-tight"),
        ),
        "rows are clipped to twice their bound": Fault(
            "clip_rows_l2", name("bound", "2 * bound", every=True), neighbors("adassp-tight")
        ),
    },
    "dpalgos/steps/denoising.py": {
        "noise in a cube is counted as normal": Fault(
            "normal_equivalent", call("max", "{0}"), "test_intervals"
        )
    },
    "dpalgos/steps/moments.py": {
        "second moments of scores move by 1/n": Fault(
            "square_moment_sensitivity",
            number(2.0, 1.0),
            witness("adassp: interval-tight", "preconditioned_regression: interval-tight"),
        ),
        "whitened rows are clipped by their norms before whitening": Fault(
            "clipped_row_sums",
            argument("row_lengths", 0, "Z", nth=1),
            witness("preconditioned_regression: whitened twice-tight"),
        ),
        "moments are of whitened rows that nothing clips": Fault(
            "clipped_row_moments",
            call("clip_rows_l2", "{0}"),
            witness("preconditioned_regression: whitened twice-tight"),
        ),
        "rows are whitened after they are summed": Fault(
            "clipped_row_sums",
            (argument("row_lengths", 0, "{all} @ matrix", nth=1), operation("@", "{left}", nth=0)),
            "test_a_row_moves_clipped_sums_by_no_more_than_its_clip_level_whatever_the_whitening",
        ),
        "streamed rows are not clipped": Fault(
            "_streamed", call("multiply", "np.copyto({out}, {0})", nth=0), "test_row_moments"
        ),
        "streamed rows are clipped to twice their bound": Fault(
            "_streamed", argument("_clip_factors", 1, "2 * {all}"), "test_row_moments"
        ),
        "streamed responses are not truncated": Fault(
            "_streamed", argument("clip", 1, "-1e300"), "test_row_moments"
        ),
        "X'X counts one of two rows": Fault(
            "gram_sensitivity", returns("{all} / np.sqrt(2)"), witness("adassp-tight")
        ),
    },
    "dpalgos/sklearn/models.py": {
        "coefficients stay in public units": Fault(
            "_LinearPredictor._fit_coef.slopes",
            returns("np.asarray(coef[: X.shape[1]])"),
            "test_with_public_units_raw_columns_give_raw_coefficients_and_intervals",
        ),
        "predictions leave the declared bounds of the response": Fault(
            "_PrivateLeastSquares.predict",
            returns("self._predictor(X)"),
            "test_predictions_stay_within_declared_bounds_of_the_response",
        ),
    },
}
