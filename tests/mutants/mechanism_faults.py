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
from tests.mutants.fault import (
    Fault,
    batch,
    certified,
    hardened,
    law,
    neighbors,
    order,
    replayed,
    scale,
    witness,
)

_HARDENED_LAW = "tests/contract/test_hardened_law.py"
_BLOCKED_DESIGN = ("tests/dpalgos/test_blocked_design.py",)
_GAUSSIAN_DP = ("tests/dpalgos/test_gaussian_dp.py",)
_HARDENED_RELEASE = ("tests/dpalgos/test_hardened_release.py",)
_INTERVALS = ("tests/dpalgos/test_intervals.py",)
_NOISE_SOURCE = ("tests/dpalgos/test_noise_source.py",)
_PRIVACY_LOSSES = ("tests/dpalgos/test_privacy_loss_distributions.py",)
_RANDOM_STOPPING = ("tests/dpalgos/mechanisms/test_random_stopping.py",)
_ROW_MOMENTS = ("tests/dpalgos/mechanisms/test_row_moments.py",)
_SAMPLED_GAUSSIAN = ("tests/dpalgos/test_sampled_gaussian.py",)
_TOP_K = ("tests/dpalgos/mechanisms/test_top_k.py",)
_USER_MEAN = (
    "tests/dpalgos/user_level/test_user_level_mean.py::"
    "test_rows_beyond_the_most_that_count_are_left_out_whatever_they_hold"
)

MECHANISM_FAULTS = {
    "dpalgos/accounting/composition.py": (
        Fault(
            "repeated Gaussian releases count once",
            "total_mu",
            operation("count", "1 / {right}"),
            _GAUSSIAN_DP,
        ),
        Fault(
            "selections cost half in the accountant",
            "_renyi",
            number(8, 16),
            ("tests/independent/test_results.py::test_both_accountants_agree",),
        ),
        Fault(
            "what all people are told of is not charged to disjoint groups",
            "by_group",
            operation("+", "{right}"),
            ("tests/dpalgos/local/test_randomizers.py",),
        ),
        Fault("steps that may fail are free", "_without_failures", operation("-", "{left}"), _GAUSSIAN_DP),
    ),
    "dpalgos/accounting/gaussian_dp.py": (
        Fault(
            "the Gaussian tail is one-sided",
            "gaussian_delta",
            argument("log_ndtr", 0, "{left}", nth=0),
            _GAUSSIAN_DP,
        ),
    ),
    "dpalgos/accounting/odometer.py": (
        Fault("selections cost half in the odometer", "_cost", number(8, 16), _HARDENED_RELEASE),
    ),
    "dpalgos/accounting/pld.py": (
        Fault("losses are rounded down", "_dominating_pair", call("ceil", "np.floor({0})"), _PRIVACY_LOSSES),
        Fault(
            "where losses are large the grid is coarser than a ten-thousandth of them",
            "_interval",
            argument("max", 1, "10 * {all}", nth=0),
            _PRIVACY_LOSSES,
        ),
    ),
    "dpalgos/accounting/sampled_gaussian.py": (
        Fault(
            "random rows are accounted for adding one",
            "sampled_gaussian_losses",
            number(2, 4),
            _SAMPLED_GAUSSIAN,
        ),
    ),
    "dpalgos/rows/blocks.py": (
        Fault(
            "a sample keeps the caller's array", "unchanging", call("copy", "{of}.view()"), _BLOCKED_DESIGN
        ),
        Fault(
            "streamed rows are not checked in later passes",
            "StreamedRows.pieces",
            without("_check_values"),
            _BLOCKED_DESIGN,
        ),
        Fault(
            "streamed columns are not checked in later passes",
            "StreamedRows.column_pieces",
            condition("LARGEST_VALUE", "False"),
            _BLOCKED_DESIGN,
        ),
        Fault(
            "responses that come along are not checked",
            "StreamedRows._check_parts",
            without("_check_magnitudes"),
            _BLOCKED_DESIGN,
        ),
        Fault(
            "a stream may grow",
            "StreamedRows._check_values",
            condition("largest_magnitude", "False"),
            _BLOCKED_DESIGN,
        ),
        Fault("a column does not count in the norm", "_row_squares", number(1, 2), _ROW_MOMENTS),
        Fault(
            "large values of a stream are not looked at",
            "_check_magnitudes",
            condition("LARGEST_VALUE", "{left}"),
            _BLOCKED_DESIGN,
        ),
    ),
    "dpalgos/hardened_release.py": (
        Fault(
            "an estimator that fails on some rows is released",
            "plan_release",
            condition("no_release", "False"),
            _HARDENED_RELEASE,
        ),
        Fault(
            "a release is planned for a thousand rows",
            "_made_up",
            argument("full", 1, "float(min(n_rows, 1000))"),
            _HARDENED_RELEASE,
        ),
    ),
    "dpalgos/steps/ball_mean.py": (
        Fault(
            "a user moves a ball's mean by its radius",
            "ball_mean_sensitivity",
            returns("{all} / 2"),
            witness("user_level_mean: clipped-tight"),
        ),
        Fault(
            "users' means are not clipped",
            "ball_mean",
            call("clip_factor", "0 * {all} + 1"),
            neighbors("user_level_mean: clipped-tight"),
        ),
    ),
    "dpalgos/steps/box_noise.py": (
        Fault("noise in a cube is counted as normal", "normal_equivalent", call("max", "{0}"), _INTERVALS),
    ),
    "dpalgos/release/checks.py": (
        Fault(
            "noise may vanish",
            "check_event",
            operation("tiny", "{left} >= 0"),
            ("tests/contract/test_absurd_bounds.py::test_a_transcript_refuses_what_no_noise_can_cover",),
        ),
        Fault(
            "bounds may be absurd",
            "check_bound",
            name("SMALLEST_BOUND", "0.0", nth=0),
            ("tests/contract/test_absurd_bounds.py::test_absurd_bounds_are_refused_by_name[dp_mean]",),
        ),
    ),
    "dpalgos/steps/clipped_residuals.py": (
        Fault(
            "residuals are not clipped",
            "clipped_residual_gradient.at",
            without("clip"),
            neighbors("dp_linear_regression: residual-clipped-tight"),
        ),
    ),
    "dpalgos/steps/clipping.py": (
        Fault(
            "rows are clipped to twice their bound",
            "clip_rows_l2",
            name("bound", "2 * bound", every=True),
            neighbors("adassp-tight"),
        ),
    ),
    "dpalgos/mechanisms/coinpress_covariance.py": (
        Fault(
            "differences of rows are not clipped",
            "_clipped_grams",
            without("maximum"),
            neighbors("coinpress_whitened_mean-tight"),
        ),
    ),
    "dpalgos/mechanisms/level_search.py": (
        Fault(
            "the radius is found without noise",
            "search_level",
            call("gaussian", "({all}, {0})[1]"),
            replayed("clipped_mean: private radius-tight"),
        ),
    ),
    "dpalgos/mechanisms/peeling.py": (
        Fault("peeling takes a coordinate twice", "peeling.draw", without("arange"), _TOP_K),
    ),
    "dpalgos/mechanisms/private_range.py": (
        Fault(
            "bins are drawn with twice the ε",
            "_runs",
            operation("epsilon", "{left}"),
            ("tests/dpalgos/mechanisms/test_private_range.py",),
        ),
        Fault(
            "one range is charged for all columns",
            "private_range",
            argument("BoundedRangeEvent", "count", "1"),
            certified("user_level_mean-tight"),
        ),
    ),
    "dpalgos/mechanisms/private_whitening.py": (
        Fault(
            "whitening moments move by the square of the level",
            "moments_sensitivity",
            returns("{all} / np.sqrt(2)"),
            witness(
                "preconditioned_glm: public levels-tight", "preconditioned_regression: public levels-tight"
            ),
        ),
        Fault(
            "whitened rows are clipped by their norms before whitening",
            "_clipped_second_moments",
            condition("linalg", "True"),
            witness("preconditioned_regression: whitened twice-tight"),
        ),
    ),
    "dpalgos/mechanisms/quantiles.py": (
        Fault(
            "ranks move by a half",
            "rank_sensitivity",
            returns("0.5"),
            witness("dp_mean: private quantiles-tight"),
        ),
    ),
    "dpalgos/mechanisms/random_stopping.py": (
        Fault("random stopping costs two scores", "SCORE_FACTOR", value("2.0"), _RANDOM_STOPPING),
        Fault("draws stop at a cap", "number_of_draws", condition("expm1", "True"), _RANDOM_STOPPING),
    ),
    "dpalgos/steps/row_moments.py": (
        Fault(
            "streamed rows are not clipped",
            "_streamed",
            call("multiply", "np.copyto({out}, {0})", nth=0),
            _ROW_MOMENTS,
        ),
        Fault(
            "streamed rows are clipped to twice their bound",
            "_streamed",
            argument("_clip_factors", 1, "2 * {all}"),
            _ROW_MOMENTS,
        ),
        Fault(
            "streamed responses are not truncated", "_streamed", argument("clip", 1, "-1e300"), _ROW_MOMENTS
        ),
    ),
    "dpalgos/release/hardened_noise.py": (
        Fault(
            "whether a release is refused depends on what no noise covers",
            "_add",
            call("clip", "np.array(_on_grid(value[:, 0], step))"),
            (f"{_HARDENED_LAW}::test_a_value_beyond_the_grid_is_refused_by_its_noisy_answer_alone",),
        ),
        Fault(
            "hardened noise in a cube is that of one column fewer",
            "box_sampler.half_width",
            number(1, 0, nth=0),
            ("tests/dpalgos/test_box_mean.py",),
        ),
        Fault(
            "the grid's rounding of noise in a cube is not covered",
            "SecureTranscript.box_scale",
            operation("+", "{left} / 2"),
            hardened("box_mean"),
        ),
        Fault(
            "hardened noise in a cube ignores the inflation",
            "SecureTranscript.box_scale",
            operation("_inflation", "{right}"),
            (f"{_HARDENED_LAW}::test_inflation_widens_the_noise_by_what_it_lowers_the_cost",),
        ),
        Fault(
            "hardened noise is counted without its inflation",
            "SecureTranscript.noise_std",
            operation("_inflation", "{left}"),
            _INTERVALS,
        ),
        Fault(
            "the grid's rounding is not covered",
            "SecureTranscript.noise_std",
            operation("+", "{left} / 2"),
            hardened("dp_mean", "adassp"),
        ),
        Fault(
            "hardened Laplace noise is halved",
            "SecureTranscript.laplace",
            operation("_inflation", "{all} / 2", nth=0),
            _HARDENED_RELEASE,
        ),
        Fault(
            "hardened choices count one direction",
            "SecureTranscript._charged_selection",
            operation("*", "{right}"),
            _HARDENED_RELEASE,
        ),
        Fault(
            "the grid is finer than float64",
            "_LARGEST_INDEX",
            value("2.0**62"),
            (f"{_HARDENED_LAW}::test_a_value_that_float64_cannot_resolve_on_the_grid_is_refused",),
        ),
        Fault(
            "hardened noise is not inflated",
            "SecureTranscript.gaussian",
            operation("_inflation", "{left}"),
            _HARDENED_RELEASE,
        ),
    ),
    "dpalgos/steps/symmetric.py": (
        Fault(
            "X'X counts one of two rows",
            "gram_sensitivity",
            returns("{all} / np.sqrt(2)"),
            witness("adassp-tight"),
        ),
    ),
    "dpalgos/mechanisms/top_k.py": (
        Fault(
            "released coordinates move by λ together", "selected_l2_sensitivity", call("sqrt", "1.0"), _TOP_K
        ),
        Fault(
            "Laplace noise of half its scale",
            "release_laplace",
            call("laplace", "{all} / 2"),
            scale("dp_sparse_mean-paper"),
        ),
        Fault(
            "one Gumbel scale for two choices",
            "gumbel_top_k",
            call("check_sensitivity", "{all} / 2"),
            law("dp_sparse_mean-tight"),
        ),
    ),
    "dpalgos/release/transcript.py": (
        Fault(
            "half of the squares' noise is drawn",
            "Transcript.box",
            call("box", "{all} / 2"),
            scale("box_mean: interval-tight"),
        ),
        Fault(
            "noise is drawn before the charge",
            "Transcript.gaussian",
            argument("_publish", 1, "(lambda drawn: lambda: drawn)({all}())"),
            order("dp_mean-tight"),
        ),
        Fault(
            "the second release has half its noise",
            "Transcript.gaussian",
            call("normal", "{all} / (2 if len(self.events) == 2 else 1)"),
            scale("adassp-tight"),
        ),
        Fault(
            "random rows are drawn more often than is charged",
            "Transcript.gaussian_of_drawn_rows",
            argument("drawn", 1, "min(1.0, 1.2 * {all})"),
            _SAMPLED_GAUSSIAN,
        ),
        Fault(
            "random rows are drawn once for all steps",
            "Transcript.gaussian_of_drawn_rows",
            argument("_drawn_rows", 0, "lambda: vars(self).setdefault('kept', {all}())"),
            _SAMPLED_GAUSSIAN,
        ),
    ),
    "dpalgos/models/whitened_scores.py": (
        Fault(
            "scores are not clipped",
            "ScoresAt.clipped_mean",
            call("clip_factor", "0 * {all} + 1"),
            neighbors("preconditioned_glm: public levels-tight"),
        ),
        Fault(
            "curvature is not clipped",
            "CurvatureAt.clipped_mean",
            call("clip_factor", "1"),
            neighbors("preconditioned_glm: interval-tight"),
        ),
    ),
    "dpalgos/mechanisms/winsorized_mean.py": (
        Fault(
            "a user moves a truncated mean by half of the interval",
            "truncated_mean_sensitivity",
            returns("{all} / 2"),
            witness("user_level_mean-paper"),
        ),
    ),
    "dpalgos/release/noise_source.py": (
        Fault(
            "noise in a cube is that of one column fewer",
            "Noise.box",
            argument("laplace", 0, "{left}"),
            scale("box_mean-tight"),
        ),
        Fault("Laplace noise has half its scale", "_laplace", call("log", "{all} / 2"), _NOISE_SOURCE),
        Fault(
            "Laplace noise has one sign",
            "_laplace",
            call("copysign", "np.abs({0}, out={out})"),
            _NOISE_SOURCE,
        ),
        Fault(
            "all replicates share their noise",
            "Noise._fresh",
            argument("fill_draws", 1, "self._rngs[0]"),
            batch("dp_mean-tight"),
        ),
    ),
    "dpalgos/params.py": (
        Fault(
            "a config may set delta",
            "_OF_THE_RUN",
            text("delta", "no keyword"),
            ("tests/flows/test_privacy_cli.py::test_refused_requests_cost_nothing",),
        ),
    ),
    "dpalgos/rows/sample.py": (
        Fault(
            "replicates ignore which rows they use",
            "Sample.means",
            condition("float_mask", "True"),
            batch("sample_mean-None"),
        ),
    ),
    "dpalgos/rows/passes.py": (
        Fault(
            "of blocks whose factors are computed together the second gets those of the first",
            "row_sums",
            call("split", "[{0}[:, : part.shape[1]] for part in {all}]", nth=0),
            ("tests/dpalgos/test_shared_passes.py",),
        ),
    ),
    "dpalgos/rows/users.py": (
        Fault(
            "the smallest rows of a user count",
            "UserRows.at_most",
            call("lexsort", "np.lexsort((self.X[:, 0], codes))"),
            (_USER_MEAN,),
        ),
        Fault(
            "which rows of a user count depends on other users",
            "UserRows.at_most",
            call("default_rng", "np.random.default_rng(len(codes))"),
            (_USER_MEAN,),
        ),
        Fault(
            "an array's ids of users are compared as they are written",
            "_canonical_id",
            call("normalize", "{1}"),
            ("tests/data/test_user_ids.py::test_an_estimate_counts_users_as_a_release_does",),
        ),
    ),
}
