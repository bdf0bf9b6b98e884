"""Faults that someone could make, planted one by one in a copy of the project: fast tests must see each."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]

CONTRACT = "tests/contract/test_estimators.py::"
LEFT_OUT = shutil.ignore_patterns(".venv", ".git", ".dpcost", "out", "__pycache__", ".*_cache")


@dataclass(frozen=True)
class Fault:
    """One change of the code, and the tests that must fail then.

    Attributes
    ----------
    what : str
        For the test's name.
    file, old, new : str
        Where, and which text becomes which; ``old`` stands there once.
    tests : tuple of str
        Ids of tests, or files, of the fast suite.
    """

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def neighbors(*forms):
    return tuple(f"{CONTRACT}test_random_neighbors_never_exceed_the_sensitivity[{form}]" for form in forms)


def witness(*forms):
    return tuple(f"{CONTRACT}test_the_witness_attains_the_sensitivity[{form}]" for form in forms)


def scale(*forms):
    return tuple(f"{CONTRACT}test_noise_has_the_declared_scale[{form}]" for form in forms)


def law(*forms):
    return tuple(f"{CONTRACT}test_selections_follow_their_law[{form}]" for form in forms)


def order(*forms):
    return tuple(f"{CONTRACT}test_noise_is_drawn_after_the_charge[{form}]" for form in forms)


def certified(*forms):
    return tuple(f"{CONTRACT}test_certified_epsilon[{form}]" for form in forms)


def batch(*forms):
    return tuple(f"{CONTRACT}test_a_batch_equals_a_loop[True-{form}]" for form in forms)


def replayed(*forms):
    test = "tests/dpalgos/audit/test_post_processing.py::test_the_answer_is_made_of_the_releases"
    return tuple(f"{test}[1.0-{form}]" for form in forms)


def hardened(*forms):
    test = "tests/contract/test_hardened_law.py::test_noise_covers_what_a_row_moves_on_the_grid"
    return tuple(f"{test}[{form}]" for form in forms)


def hardened_law(*forms):
    test = "tests/contract/test_hardened_law.py::test_what_a_hardened_run_publishes_follows_the_research_law"
    return tuple(f"{test}[{form}]" for form in forms)


FAULTS = (
    Fault(
        "a file that changes before it is read into memory is not noticed",
        "tasks/release.py",
        "_numbers(asked))\n            numbers.unchanged()\n",
        "_numbers(asked))\n",
        ("tests/flows/test_streamed_release.py",),
    ),
    Fault(
        "how far a solver may end from the minimum is hardly covered",
        "dpalgos/comparators/objective_perturbation_glm.py",
        "output_std = noise.output * tolerance / ridges",
        "output_std = noise.output * tolerance / ridges / 2",
        ("tests/dpalgos/test_objective_perturbation.py",),
    ),
    Fault(
        "whether a release is refused depends on what no noise covers",
        "dpalgos/mechanisms/secure.py",
        "index = np.clip(np.rint(value[:, 0] / step), -_LARGEST_INDEX, _LARGEST_INDEX)",
        "index = np.array(_on_grid(value[:, 0], step))",
        (
            "tests/contract/test_hardened_law.py::"
            "test_a_value_beyond_the_grid_is_refused_by_its_noisy_answer_alone",
        ),
    ),
    # Groups of people that are told of one by one.
    Fault(
        "a row is in the batches of all later turns, too",
        "dpalgos/comparators/dp_sgd_glm.py",
        "row_mask=used & (turn == number)",
        "row_mask=used & (turn >= number)",
        neighbors("dp_sgd_glm: batches in turn-tight"),
    ),
    Fault(
        "users take part in the phases before theirs, too",
        "dpalgos/user_level/user_level_phased_erm.py",
        "taken(groups[id(one)] == t)",
        "taken(groups[id(one)] >= t)",
        neighbors("user_level_phased_erm-tight"),
    ),
    # Devices.
    Fault(
        "the direction of a vector whose squares underflow is no unit vector",
        "dpalgos/local/randomizers.py",
        "_SHORTEST = 1e-60",
        "_SHORTEST = 0.0",
        ("tests/dpalgos/local/test_randomizers.py",),
    ),
    # Whole users.
    Fault(
        "a user moves a ball's mean by its radius",
        "dpalgos/mechanisms/ball_mean.py",
        "return np.asarray(2 * radius / n_rows)",
        "return np.asarray(radius / n_rows)",
        witness("user_level_mean: clipped-tight"),
    ),
    Fault(
        "a user moves a truncated mean by half of the interval",
        "dpalgos/mechanisms/winsorized_mean.py",
        "return np.asarray(2 * half_width / n_rows)",
        "return np.asarray(half_width / n_rows)",
        witness("user_level_mean-paper"),
    ),
    Fault(
        "users' means are not clipped",
        "dpalgos/mechanisms/ball_mean.py",
        "factor = clip_factor(np.sqrt(np.maximum(squares, 0)), radii)",
        "factor = 0 * clip_factor(np.sqrt(np.maximum(squares, 0)), radii) + 1",
        neighbors("user_level_mean: clipped-tight"),
    ),
    Fault(
        "bins are drawn with twice the ε",
        "dpalgos/mechanisms/private_range.py",
        "np.log(n_within) - epsilon / 2 * costs",
        "np.log(n_within) - epsilon * costs",
        ("tests/dpalgos/mechanisms/test_private_range.py",),
    ),
    Fault(
        "one range is charged for all columns",
        "dpalgos/mechanisms/private_range.py",
        "sensitivity=COUNT_SENSITIVITY, count=k)",
        "sensitivity=COUNT_SENSITIVITY, count=1)",
        certified("user_level_mean-tight"),
    ),
    Fault(
        "random stopping costs two scores",
        "dpalgos/mechanisms/random_stopping.py",
        "SCORE_FACTOR = 3.0",
        "SCORE_FACTOR = 2.0",
        ("tests/dpalgos/mechanisms/test_random_stopping.py",),
    ),
    Fault(
        "draws stop at a cap",
        "dpalgos/mechanisms/random_stopping.py",
        "reached = uniform if most_draws is None else -uniform * np.expm1(most_draws * log_go_on)",
        "reached = uniform",
        ("tests/dpalgos/mechanisms/test_random_stopping.py",),
    ),
    # Tables of one's own.
    Fault(
        "a user of two pieces of a file is two users",
        "data/user_ids.py",
        "known = [self._texts.setdefault(text, len(self._texts)) for text in cells.values]",
        "known = [k + 10**6 * len(self._pieces) for k in range(len(cells.values))]",
        ("tests/flows/test_own_users.py::test_a_user_of_several_pieces_of_a_file_is_one_user",),
    ),
    Fault(
        "what a home keeps of a table of one's own lies open where it lay open before",
        "data/store.py",
        "if mode & 0o077:",
        "if mode & 0o777 == 0:",
        (
            "tests/flows/test_init_study.py::"
            "test_no_other_account_can_reach_what_a_home_keeps_of_a_table_of_ones_own",
        ),
    ),
    Fault(
        "ids of users are compared as they are written",
        "data/user_ids.py",
        "cells = canonical_cells(batch.column(self._column))",
        'cells = canonical_cells(pa.array([f"id {one}" for one in batch.column(self._column).to_pylist()]))',
        ("tests/flows/test_user_release.py::test_an_id_that_is_written_in_several_ways_is_one_user",),
    ),
    Fault(
        "a study of users runs estimators that protect a row",
        "tasks/problems/registered_table.py",
        '(estimator.unit_of_privacy == "user") != bool(self.user_id)',
        '(estimator.unit_of_privacy == "user") > bool(self.user_id)',
        ("tests/flows/test_own_users.py::test_a_wrong_declaration_of_users_is_one_sentence",),
    ),
    Fault(
        "a row with a gap adds to a released regression",
        "tasks/release_table.py",
        "np.zeros((len(read.kept), X.shape[1] + 1))",
        "np.ones((len(read.kept), X.shape[1] + 1))",
        (
            "tests/flows/test_declared_release.py::test_a_row_with_a_gap_becomes_a_row_of_zeros_and_the_number_of_rows_stays",
        ),
    ),
    Fault(
        "a released mean is of as many rows as have no gap",
        "tasks/release_table.py",
        "if read.repairs and (not y or user_id):",
        "if read.repairs and user_id:",
        ("tests/flows/test_declared_release.py::test_rows_with_gaps_are_never_dropped_from_a_mean",),
    ),
    Fault(
        "a declared release is in units that the data decide",
        "tasks/release_table.py",
        "X = np.column_stack([(table[name] - c) / s for",
        "X = np.column_stack([(table[name] - table[name].mean()) / s for",
        ("tests/flows/test_declared_release.py::test_a_row_changes_its_own_row_and_no_other",),
    ),
    Fault(
        "what stands for missing cells is no part of the question",
        "tasks/release_table.py",
        '**({"imputed": imputed} if imputed else {}),',
        "",
        (
            "tests/flows/test_declared_release.py::"
            "test_another_constant_for_missing_cells_is_another_question",
        ),
    ),
    Fault(
        "numbers beyond their bounds become the mean of the others",
        "data/own_table.py",
        "np.clip(found[outside], column.lower, column.upper)",
        "found[np.isfinite(found) & ~outside].mean()",
        (
            "tests/data/test_own_table.py::"
            "test_numbers_beyond_their_bounds_become_the_nearer_one_and_are_counted_where_the_owner_says_so",
        ),
    ),
    Fault(
        "units are no part of the question",
        "tasks/release.py",
        "            **given.units.declared,\n",
        "",
        (
            "tests/flows/test_declared_release.py::"
            "test_the_same_question_is_free_and_other_units_are_another_question",
        ),
    ),
    # Sensitivities.
    Fault(
        "hold-out counts all rows",
        "dpalgos/tuning/holdout.py",
        "sensitivity=loss.length / n_rows",
        "sensitivity=loss.length / sample.n_rows",
        neighbors("dp_sparse_mean: s by hold-out-tight", "dp_sparse_linear_regression: s by hold-out-tight"),
    ),
    Fault(
        "cross-validation scores move by half",
        "dpalgos/tuning/cross_validation.py",
        "        sensitivity=loss.length / sample.n_rows,\n        epsilon=epsilon,",
        "        sensitivity=loss.length / sample.n_rows / 2,\n        epsilon=epsilon,",
        witness("dp_sparse_mean: s by cross-validation-tight"),
    ),
    Fault(
        "a mean moves by its widest column",
        "dpalgos/central/dp_mean.py",
        "np.linalg.norm(widths, axis=0) / n_rows",
        "widths.max(axis=0) / n_rows",
        witness("dp_mean-tight"),
    ),
    Fault(
        "an entry moves by R/n",
        "dpalgos/central/dp_sparse_mean.py",
        "return np.asarray(2 * value_bound / n_rows)",
        "return np.asarray(value_bound / n_rows)",
        neighbors("dp_sparse_mean-tight", "dp_sparse_mean-paper"),
    ),
    Fault(
        "a ball's diameter is its radius",
        "dpalgos/comparators/clipped_mean.py",
        "return np.asarray(2 * np.asarray(clip_norm) / n_rows)",
        "return np.asarray(np.asarray(clip_norm) / n_rows)",
        witness("clipped_mean: public centre-tight"),
    ),
    Fault(
        "offsets from a public centre are not clipped",
        "dpalgos/comparators/clipped_mean.py",
        "offsets *= radius[0] / np.maximum(",
        "offsets *= 1.0 + 0 * np.maximum(",
        neighbors("clipped_mean: public centre-tight"),
    ),
    Fault(
        "residuals are not clipped",
        "dpalgos/mechanisms/clipped_residuals.py",
        "            np.clip(residual, -most, most, out=residual)\n",
        "",
        neighbors("dp_linear_regression: residual-clipped-tight"),
    ),
    Fault(
        "rows are clipped to twice their bound",
        "dpalgos/mechanisms/clipping.py",
        "(bound / np.maximum(norms, bound))[:, None]",
        "(2 * bound / np.maximum(norms, 2 * bound))[:, None]",
        neighbors("adassp-tight"),
    ),
    Fault(
        "the gradient of one row only",
        "dpalgos/central/dp_linear_regression.py",
        "change = 2 * covariate_bound * (a * t + response_bound)",
        "change = covariate_bound * (a * t + response_bound)",
        neighbors("dp_linear_regression-tight"),
    ),
    Fault(
        "scores of opposite rows",
        "dpalgos/comparators/screened_sparse_regression.py",
        "return np.asarray(2 * _SELECTION_LEVEL**2 * covariate_bound",
        "return np.asarray(_SELECTION_LEVEL**2 * covariate_bound",
        neighbors("screened_sparse_regression-tight"),
    ),
    Fault(
        "moments without the response",
        "dpalgos/comparators/screened_sparse_regression.py",
        "return np.asarray(2 * np.sqrt(2) * clip_norm**2 / n_rows)",
        "return np.asarray(np.sqrt(2) * clip_norm**2 / n_rows)",
        witness("screened_sparse_regression-tight"),
    ),
    Fault(
        "ranks move by a half",
        "dpalgos/mechanisms/quantiles.py",
        "RANK_SENSITIVITY = 1.0",
        "RANK_SENSITIVITY = 0.5",
        witness("dp_mean: private quantiles-tight"),
    ),
    Fault(
        "scores of a second screening move by half",
        "dpalgos/comparators/screened_sparse_glm.py",
        "return np.asarray(2 * screening_bound * largest_residual / n_rows)",
        "return np.asarray(screening_bound * largest_residual / n_rows)",
        neighbors("screened_sparse_glm: two screenings-tight"),
    ),
    Fault(
        "a fit on selected columns spends the whole budget",
        "dpalgos/comparators/screened_sparse_glm.py",
        "epsilon=gaussian_epsilon(params.delta, 1 / noise_multiplier)",
        "epsilon=params.epsilon",
        certified("screened_sparse_glm: preconditioned fit-tight"),
    ),
    Fault(
        "a vertex' score moves by half",
        "dpalgos/comparators/private_frank_wolfe_lasso.py",
        "return np.asarray(coef_l1_bound * np.asarray(largest_change) / n_rows)",
        "return np.asarray(coef_l1_bound * np.asarray(largest_change) / n_rows / 2)",
        witness("private_frank_wolfe_lasso-tight"),
    ),
    Fault(
        "whitening moments move by the square of the level",
        "dpalgos/mechanisms/private_whitening.py",
        "return np.asarray(np.sqrt(2) * level**2 / n_rows)",
        "return np.asarray(level**2 / n_rows)",
        witness("preconditioned_glm: public levels-tight", "preconditioned_regression: public levels-tight"),
    ),
    Fault(
        "whitened rows are clipped by their norms before whitening",
        "dpalgos/mechanisms/private_whitening.py",
        "        if inside is None:\n            norms",
        "        if True:\n            norms",
        witness("preconditioned_regression: whitened twice-tight"),
    ),
    Fault(
        "a second whitening is not paid for",
        "dpalgos/central/preconditioned_regression.py",
        "rest = 1 - self.level_share - self.moment_share - self.whitened_share - self.interval_share",
        "rest = 1 - self.level_share - self.moment_share - self.interval_share",
        certified("preconditioned_regression: whitened twice-tight"),
    ),
    Fault(
        "searches for the gradients' levels are not paid for",
        "dpalgos/central/preconditioned_regression.py",
        "n_searches = 1 + self.wanted.n_searched_steps + ",
        "n_searches = 1 + ",
        certified("preconditioned_regression-tight"),
    ),
    Fault(
        "a clipped mean of scores moves by the level",
        "dpalgos/central/preconditioned_glm.py",
        "return np.asarray(2 * level / n_rows)",
        "return np.asarray(level / n_rows)",
        witness("preconditioned_glm-tight"),
    ),
    Fault(
        "scores are not clipped",
        "dpalgos/mechanisms/whitened_scores.py",
        "factor = clip_factor(norms, level[group.replicates]) * group.weights",
        "factor = 0 * clip_factor(norms, level[group.replicates]) + group.weights",
        neighbors("preconditioned_glm: public levels-tight"),
    ),
    Fault(
        "the searches for the scores' level cost one count",
        "dpalgos/central/preconditioned_glm.py",
        "releases = counts_in_all or counts_needed(len(candidates))",
        "releases = 1",
        certified("preconditioned_glm-tight"),
    ),
    Fault(
        "a row moves means within bounds by half a width",
        "dpalgos/central/box_mean.py",
        "return np.asarray(1 / n_rows)",
        "return np.asarray(0.5 / n_rows)",
        witness("box_mean-tight"),
    ),
    Fault(
        "noise in a cube is that of one column fewer",
        "dpalgos/noise_source.py",
        "half_width = np.abs(self.laplace(size + 1)).sum(axis=0)",
        "half_width = np.abs(self.laplace(size)).sum(axis=0)",
        scale("box_mean-tight"),
    ),
    Fault(
        "losses are rounded down",
        "dpalgos/accounting/pld.py",
        "np.ceil(parameter",
        "np.floor(parameter",
        ("tests/dpalgos/test_privacy_loss_distributions.py",),
    ),
    Fault(
        "where losses are large the grid is coarser than a ten-thousandth of them",
        "dpalgos/accounting/pld.py",
        "_INTERVAL * max(1.0, ",
        "_INTERVAL * max(1.0, 10 * ",
        ("tests/dpalgos/test_privacy_loss_distributions.py",),
    ),
    Fault(
        "Laplace noise has half its scale",
        "dpalgos/noise_source.py",
        "np.copysign(np.log(inner, out=inner), out, out=out)",
        "np.copysign(np.log(inner, out=inner) / 2, out, out=out)",
        ("tests/dpalgos/test_noise_source.py",),
    ),
    Fault(
        "Laplace noise has one sign",
        "dpalgos/noise_source.py",
        "np.copysign(np.log(inner, out=inner), out, out=out)",
        "np.abs(np.log(inner, out=inner), out=out)",
        ("tests/dpalgos/test_noise_source.py",),
    ),
    Fault(
        "of blocks whose factors are asked for together the second gets those of the first",
        "dpalgos/shared_passes.py",
        "np.split(together, ends_of_blocks[:-1], axis=1)",
        "[together[:, : len(block)] for block in entries]",
        ("tests/dpalgos/test_shared_passes.py",),
    ),
    Fault(
        "hardened noise in a cube is that of one column fewer",
        "dpalgos/mechanisms/secure.py",
        "t = sum(geometric[: size + 1])",
        "t = sum(geometric[:size])",
        ("tests/dpalgos/test_box_mean.py",),
    ),
    Fault(
        "the grid's rounding of noise in a cube is not covered",
        "dpalgos/mechanisms/secure.py",
        "scale = self._inflation * (sensitivity / step + 2) / epsilon",
        "scale = self._inflation * (sensitivity / step / 2) / epsilon",
        hardened("box_mean"),
    ),
    Fault(
        "a GLM's gradient moves by its radius",
        "dpalgos/central/dp_glm.py",
        "return np.asarray(2 * covariate_bound * family.gradient_radius(predictor_bound) / n_rows)",
        "return np.asarray(covariate_bound * family.gradient_radius(predictor_bound) / n_rows)",
        witness("dp_glm-tight"),
    ),
    Fault(
        "X'X counts one of two rows",
        "dpalgos/mechanisms/symmetric.py",
        "return float(np.sqrt(2) * row_bound**2)",
        "return float(row_bound**2)",
        witness("adassp-tight"),
    ),
    Fault(
        "released coordinates move by λ together",
        "dpalgos/mechanisms/top_k.py",
        "root = float(np.sqrt(k))",
        "root = 1.0",
        ("tests/dpalgos/mechanisms/test_top_k.py",),
    ),
    # Intervals.
    Fault(
        "an interval is computed from the rows",
        "dpalgos/comparators/clipped_mean.py",
        "        squares=scores.moments,",
        "        squares=squares,",
        replayed("clipped_mean: interval-tight"),
    ),
    Fault(
        "second moments for an interval are not paid for",
        "dpalgos/intervals.py",
        "return 1.0 if self.interval is None else 1 - INTERVAL_SHARE",
        "return 1.0",
        certified("dp_mean: interval-tight", "adassp: interval-tight"),
    ),
    Fault(
        "shares of an interval are left out of the budget",
        "dpalgos/comparators/clipped_mean.py",
        "shares = interval_shares(params.interval)",
        "shares = interval_shares(params.interval and None)",
        certified("clipped_mean: interval-tight"),
    ),
    Fault(
        "half of the noise is left out of a mean's interval",
        "dpalgos/intervals.py",
        "    noise = np.asarray(noise_std) ** 2\n",
        "    noise = np.asarray(noise_std) ** 2 / 4\n",
        ("tests/dpalgos/test_intervals.py",),
    ),
    Fault(
        "squares of entries move by half of what they do",
        "dpalgos/entry_intervals.py",
        "np.sqrt(2 * d) / n_rows",
        "np.sqrt(d / 2) / n_rows",
        witness("dp_mean: interval-tight", "karwa_vadhan_mean: interval-tight"),
    ),
    Fault(
        "squares of entries are not cut",
        "dpalgos/entry_intervals.py",
        "np.clip(self.relative(rows), -1, 1) ** 2",
        "self.relative(rows) ** 2",
        neighbors("box_mean: interval-tight"),
    ),
    Fault(
        "squares in a cube are not paid for",
        "dpalgos/central/box_mean.py",
        "rest = _BELOW * (1.0 if params.interval is None else 1 - CUBE_SHARE)",
        "rest = _BELOW",
        certified("box_mean: interval-tight"),
    ),
    Fault(
        "squares of columns are left out of what is planned",
        "dpalgos/comparators/karwa_vadhan_mean.py",
        "releases = [means, squares] if interval else [means]",
        "releases = [means]",
        certified("karwa_vadhan_mean: interval-tight"),
    ),
    Fault(
        "half of the squares' noise is drawn",
        "dpalgos/mechanisms/transcript.py",
        "lambda: value + scale * self._noise.box(value.shape[0])",
        "lambda: value + scale / 2 * self._noise.box(value.shape[0])",
        scale("box_mean: interval-tight"),
    ),
    Fault(
        "noise in a cube is counted as normal",
        "dpalgos/mechanisms/box_noise.py",
        "return max(coordinate_std(size), coordinate_quantile(size, level) / float(ndtri((1 + level) / 2)))",
        "return coordinate_std(size)",
        ("tests/dpalgos/test_intervals.py",),
    ),
    Fault(
        "how unsure a variance is is left out of an interval",
        "dpalgos/intervals.py",
        "np.sqrt(variance + variance_std)",
        "np.sqrt(variance)",
        ("tests/dpalgos/test_intervals.py",),
    ),
    Fault(
        "squares of a single column of users get half of the noise that is paid for",
        "dpalgos/user_level/aggregation.py",
        "squares=squares / factor)",
        "squares=2 * squares / factor)",
        (
            "tests/dpalgos/user_level/test_user_level_mean.py::"
            "test_what_an_interval_of_one_column_releases_is_covered[winsorized]",
        ),
    ),
    Fault(
        "public rows are taken for the population",
        "dpalgos/local/ldp_nldp_public.py",
        "bound[:, r] += (lever",
        "bound[:, r] += 0 * (lever",
        ("tests/dpalgos/test_intervals.py",),
    ),
    Fault(
        "the noise of local reports is left out of an interval",
        "dpalgos/local/noisy_moments.py",
        "variance = known + second**2 + bound",
        "variance = known / 4 + second**2 + bound",
        ("tests/dpalgos/test_intervals.py",),
    ),
    Fault(
        "curvature is not cut at its cap",
        "dpalgos/bounded_glm_intervals.py",
        "X = clip_rows_l2(group.X, self.row_bound)\n            made",
        "X = group.X\n            made",
        neighbors("dp_glm: interval-tight", "objective_perturbation_glm: interval-tight"),
    ),
    Fault(
        "rows that are clipped are taken to say no more than others",
        "dpalgos/comparators/adassp.py",
        "        row_bound=row,\n",
        "",
        ("tests/dpalgos/test_intervals.py",),
    ),
    Fault(
        "curvatures of users are not clipped",
        "dpalgos/user_level/curvature.py",
        "clip_factor(norm, self.curvature_bound) @ packed",
        "np.ones_like(norm) @ packed",
        witness("user_level_regression: interval-tight"),
    ),
    Fault(
        "gradient steps of users take what an interval has spent",
        "dpalgos/user_level/aggregation.py",
        "self._share = share if",
        "self._share = 1.0 if",
        certified("user_level_regression: interval-tight"),
    ),
    Fault(
        "a single step on a single column of users spends all of epsilon beside its interval",
        "dpalgos/user_level/aggregation.py",
        "n_features == n_queries == share == 1",
        "n_features == n_queries == 1",
        ("tests/dpalgos/test_intervals.py",),
    ),
    Fault(
        "users whose curvature is clipped are not counted",
        "dpalgos/user_level/curvature.py",
        "self._count(lambda r: norms[r] > self.curvature_bound)",
        "self._count(lambda r: norms[r] < 0)",
        ("tests/dpalgos/test_intervals.py",),
    ),
    Fault(
        "what follows the steps is not paid for",
        "dpalgos/central/dp_glm.py",
        'return whole / float(np.sqrt(params.shares()["steps"]))',
        "return whole",
        certified("dp_glm: interval-tight"),
    ),
    Fault(
        "an interval beside a minimum gets half of its noise",
        "dpalgos/comparators/objective_perturbation_glm.py",
        "multiplier=lambda part: interval_noise(params)[part]",
        "multiplier=lambda part: 0.7 * interval_noise(params)[part]",
        certified("objective_perturbation_glm: interval-tight"),
    ),
    Fault(
        "the noise of the minimum is left out of its interval",
        "dpalgos/comparators/objective_perturbation_glm.py",
        "gradient_std=noise.objective * lipschitz / n",
        "gradient_std=noise.objective * lipschitz / n / 3",
        ("tests/dpalgos/test_intervals.py",),
    ),
    Fault(
        "half of the noise is left out of a regression's interval",
        "dpalgos/regression_intervals.py",
        "score_std**2 * length",
        "score_std**2 * length / 4",
        ("tests/dpalgos/test_intervals.py",),
    ),
    Fault(
        "hardened noise is counted without its inflation",
        "dpalgos/mechanisms/secure.py",
        "noise_multiplier * self._inflation * on_grid * step",
        "noise_multiplier * on_grid * step",
        ("tests/dpalgos/test_intervals.py",),
    ),
    Fault(
        "second moments of scores move by 1/n",
        "dpalgos/intervals.py",
        "np.sqrt(2.0 if size > 1 else 1.0) / n_rows",
        "np.sqrt(1.0 if size > 1 else 1.0) / n_rows",
        witness("adassp: interval-tight", "preconditioned_regression: interval-tight"),
    ),
    Fault(
        "curvature moves by its level",
        "dpalgos/glm_intervals.py",
        "np.sqrt(2) * level / n_rows",
        "1.0 * level / n_rows",
        witness("preconditioned_glm: interval-tight"),
    ),
    Fault(
        "curvature is not clipped",
        "dpalgos/mechanisms/whitened_scores.py",
        "(group, second * clip_factor(norms, level[group.replicates]) * group.weights)",
        "(group, second * group.weights)",
        neighbors("preconditioned_glm: interval-tight"),
    ),
    # Answers made of more than was released.
    Fault(
        "what is pruned depends on the true means",
        "dpalgos/central/dp_sparse_mean.py",
        "np.where(prune(released.values, noise_std) != 0, values, 0.0)",
        "np.where(prune(np.take_along_axis(_means(sample, params, transcript), released.support, axis=0), "
        "noise_std) != 0, values, 0.0)",
        replayed("dp_sparse_mean: s by noise level-tight"),
    ),
    Fault(
        "steps are combined from the true gradients",
        "dpalgos/central/preconditioned_regression.py",
        "steps.append(_Step(theta, released, level, sensitivity, multiplier))",
        "steps.append(_Step(theta, rows.clipped_gradient(theta, level), level, sensitivity, multiplier))",
        replayed("preconditioned_regression-tight"),
    ),
    Fault(
        "the James-Stein factor is that of the true mean",
        "dpalgos/central/dp_mean.py",
        "released = james_stein(released, (multiplier * sensitivity) ** 2)",
        "released = released * james_stein(means, (multiplier * sensitivity) ** 2)[:1] / means[:1]",
        replayed("dp_mean: shrunk-tight"),
    ),
    Fault(
        "a form leaks the mean",
        "dpalgos/central/dp_mean.py",
        '    if params.shrinkage == "james_stein":\n',
        '    if params.truncation == "private_quantiles":\n        released = (released + means) / 2\n'
        '    if params.shrinkage == "james_stein":\n',
        replayed("dp_mean: private quantiles-tight"),
    ),
    Fault(
        "the radius is found without noise",
        "dpalgos/mechanisms/level_search.py",
        "too_many = released > wanted",
        "too_many = counts_above(levels[middle, replicate]) > wanted",
        replayed("clipped_mean: private radius-tight"),
    ),
    Fault(
        "the exact moments are solved",
        "dpalgos/comparators/adassp.py",
        "system = released + ridge",
        "system = gram + ridge",
        replayed("adassp-tight"),
    ),
    Fault(
        "a sensitivity is that of the largest row",
        "dpalgos/central/dp_mean.py",
        "widths = np.full(shape, 2 * bound)",
        "widths = np.full(shape, 2 * min(bound, sample.rows.largest))",
        witness("dp_mean-tight"),
    ),
    # Noise.
    Fault(
        "Karwa-Vadhan's Gumbel noise is halved",
        "dpalgos/comparators/karwa_vadhan_mean.py",
        "noisy = counts + 2 / epsilon * noise",
        "noisy = counts + 1 / epsilon * noise",
        law("karwa_vadhan_mean-tight", "karwa_vadhan_mean-paper"),
    ),
    Fault(
        "noise is drawn before the charge",
        "dpalgos/mechanisms/transcript.py",
        "            )\n        )\n        std = noise_multiplier * np.asarray(l2_sensitivity)\n"
        "        return self._publish(value, lambda: value + std * self._noise.normal(value.shape[0]))",
        "            )\n        )\n        std = noise_multiplier * np.asarray(l2_sensitivity)\n"
        "        drawn = std * self._noise.normal(value.shape[0])\n"
        "        return self._publish(value, lambda: value + drawn)",
        order("dp_mean-tight"),
    ),
    Fault(
        "the second release has half its noise",
        "dpalgos/mechanisms/transcript.py",
        "            )\n        )\n        std = noise_multiplier * np.asarray(l2_sensitivity)\n",
        "            )\n        )\n        std = noise_multiplier * np.asarray(l2_sensitivity)\n"
        "        std = std / (2 if len(self.events) == 2 else 1)\n",
        scale("adassp-tight"),
    ),
    Fault(
        "Laplace noise of half its scale",
        "dpalgos/mechanisms/top_k.py",
        "lambda: np.asarray(values + scale * transcript.noise.laplace(len(values)))",
        "lambda: np.asarray(values + scale / 2 * transcript.noise.laplace(len(values)))",
        scale("dp_sparse_mean-paper"),
    ),
    Fault(
        "one Gumbel scale for two choices",
        "dpalgos/mechanisms/top_k.py",
        '    scale = noise_multiplier * check_sensitivity("sensitivity", sensitivity)\n',
        '    scale = noise_multiplier * check_sensitivity("sensitivity", sensitivity) / 2\n',
        law("dp_sparse_mean-tight"),
    ),
    Fault(
        "peeling takes a coordinate twice",
        "dpalgos/mechanisms/peeling.py",
        "            left[np.arange(n_replicates), chosen] = -np.inf\n",
        "",
        ("tests/dpalgos/mechanisms/test_top_k.py",),
    ),
    Fault(
        "all replicates share their noise",
        "dpalgos/noise_source.py",
        "fill_draws(kind, rng, row)",
        "fill_draws(kind, self._rngs[0], row)",
        batch("dp_mean-tight"),
    ),
    Fault(
        "replicates ignore which rows they use",
        "dpalgos/sample.py",
        "return np.asarray(Z.T @ self.float_mask / self.n_rows)",
        "return np.repeat(Z.mean(axis=0)[:, None], self.n_replicates, axis=1)",
        batch("sample_mean-None"),
    ),
    # Hardened releases.
    Fault(
        "the grid's rounding is not covered",
        "dpalgos/mechanisms/secure.py",
        "on_grid = sensitivity / step + 2 * sqrt(size)",
        "on_grid = sensitivity / step / 2",
        hardened("dp_mean", "adassp"),
    ),
    Fault(
        "hardened Laplace noise is halved",
        "dpalgos/mechanisms/secure.py",
        "scale = self._inflation * (sensitivity / step + 2 * size) / epsilon",
        "scale = self._inflation * (sensitivity / step + 2 * size) / epsilon / 2",
        ("tests/dpalgos/test_hardened_release.py",),
    ),
    Fault(
        "an estimator that fails on some rows is released",
        "dpalgos/hardened_release.py",
        "    if estimator.no_release:\n",
        "    if False:\n",
        ("tests/dpalgos/test_hardened_release.py",),
    ),
    Fault(
        "a release is planned for a thousand rows",
        "dpalgos/hardened_release.py",
        "np.full(1, float(n_rows))",
        "np.full(1, float(n))",
        ("tests/dpalgos/test_hardened_release.py",),
    ),
    Fault(
        "hardened choices count one direction",
        "dpalgos/mechanisms/secure.py",
        "return event, step, 2 * (sensitivity / step + 2) / spent",
        "return event, step, (sensitivity / step + 2) / spent",
        ("tests/dpalgos/test_hardened_release.py",),
    ),
    Fault(
        "hardened bins of all columns are one list",
        "dpalgos/comparators/karwa_vadhan_mean.py",
        "return transcript.choose_each(counts, draw, event, allowed=allowed)",
        "return transcript.choose(counts.reshape(-1, counts.shape[-1]), draw, event)",
        hardened_law("karwa_vadhan_mean"),
    ),
    Fault(
        "the grid is finer than float64",
        "dpalgos/mechanisms/secure.py",
        "_LARGEST_INDEX = 2.0**40",
        "_LARGEST_INDEX = 2.0**62",
        (
            "tests/contract/test_hardened_law.py::test_a_value_that_float64_cannot_resolve_on_the_grid_is_refused",
        ),
    ),
    Fault(
        "a public centre is added before the noise",
        "dpalgos/comparators/clipped_mean.py",
        "    offset = transcript.gaussian(\n        mean_offset(sample, center, radius),",
        "    offset = -center + transcript.gaussian(\n        center + mean_offset(sample, center, radius),",
        ("tests/contract/test_hardened_law.py::test_a_public_centre_far_from_its_radius_is_covered",),
    ),
    Fault(
        "hardened noise is not inflated",
        "dpalgos/mechanisms/secure.py",
        "multiplier = noise_multiplier * self._inflation",
        "multiplier = noise_multiplier",
        ("tests/dpalgos/test_hardened_release.py",),
    ),
    # Accounting.
    Fault(
        "steps are not composed",
        "dpalgos/central/dp_linear_regression.py",
        "alone = noise_multiplier(epsilon, delta, params.n_iterations)",
        "alone = noise_multiplier(epsilon, delta)",
        certified("dp_linear_regression-tight"),
    ),
    Fault(
        "repeated Gaussian releases count once",
        "dpalgos/accounting/composition.py",
        "sum(event.count / event.noise_multiplier**2 for event in events)",
        "sum(1 / event.noise_multiplier**2 for event in events)",
        ("tests/dpalgos/test_gaussian_dp.py",),
    ),
    Fault(
        "the Gaussian tail is one-sided",
        "dpalgos/accounting/gaussian_dp.py",
        "first = log_ndtr(-epsilon / mu + mu / 2)",
        "first = log_ndtr(-epsilon / mu)",
        ("tests/dpalgos/test_gaussian_dp.py",),
    ),
    Fault(
        "selections cost half in the accountant",
        "dpalgos/accounting/composition.py",
        "return count * np.minimum(orders * epsilon**2 / 8, epsilon)",
        "return count * np.minimum(orders * epsilon**2 / 16, epsilon)",
        ("tests/independent/test_results.py::test_both_accountants_agree",),
    ),
    Fault(
        "selections cost half in the odometer",
        "dpalgos/accounting/odometer.py",
        "return Spending(rho=count * epsilon**2 / 8",
        "return Spending(rho=count * epsilon**2 / 16",
        ("tests/dpalgos/test_hardened_release.py",),
    ),
    Fault(
        "steps that may fail are free",
        "dpalgos/accounting/composition.py",
        "return delta - failure, releases",
        "return delta, releases",
        ("tests/dpalgos/test_gaussian_dp.py",),
    ),
    Fault(
        "a sketch has half its ridge",
        "dpalgos/comparators/sheffet_ols.py",
        "ridge = row_bound_squared * least_ridge",
        "ridge = row_bound_squared / 2 * least_ridge",
        certified("sheffet_ols-tight"),
    ),
    Fault(
        "random rows are accounted for adding one",
        "dpalgos/accounting/sampled_gaussian.py",
        "s = 1 / (2 * multiplier)\n    most",
        "s = 1 / (4 * multiplier)\n    most",
        ("tests/dpalgos/test_sampled_gaussian.py",),
    ),
    Fault(
        "random rows are drawn more often than is charged",
        "dpalgos/mechanisms/transcript.py",
        "self._noise.drawn(used, sampling_rate)",
        "self._noise.drawn(used, min(1.0, 1.2 * sampling_rate))",
        ("tests/dpalgos/test_sampled_gaussian.py",),
    ),
    Fault(
        "random rows are drawn once for all steps",
        "dpalgos/mechanisms/transcript.py",
        "        value = total(self._drawn_rows(lambda: self._noise.drawn(used, sampling_rate)))\n",
        "        if not hasattr(self, '_kept'):\n"
        "            self._kept = self._drawn_rows(lambda: self._noise.drawn(used, sampling_rate))\n"
        "        value = total(self._kept)\n",
        ("tests/dpalgos/test_sampled_gaussian.py",),
    ),
    Fault(
        "a step on random rows is divided by what was drawn",
        "dpalgos/comparators/dp_sgd_glm.py",
        "X.T @ (residual * drawn) / n_batch",
        "X.T @ (residual * drawn) / np.maximum(drawn.sum(axis=0), 1)",
        (*neighbors("dp_sgd_glm-tight"), "tests/dpalgos/test_sampled_gaussian.py"),
    ),
    Fault(
        "TukeyEM's check bears a model more than the volumes say",
        "dpalgos/comparators/tukey_em.py",
        "gaps.append(epsilon + log_volumes[t - 2 - k] - reached",
        "gaps.append(epsilon + log_volumes[t - 1 - k] - reached",
        ("tests/dpalgos/test_tukey_em.py",),
    ),
    Fault(
        "TukeyEM draws by twice the depth",
        "dpalgos/comparators/tukey_em.py",
        "gain = epsilon * depth",
        "gain = 2 * epsilon * depth",
        ("tests/dpalgos/test_tukey_em.py",),
    ),
    Fault(
        "TukeyEM goes on without asking its check",
        "dpalgos/comparators/tukey_em.py",
        "passed = released[0] > -np.log(2 * params.delta) / epsilon",
        "passed = released[0] > -np.inf",
        ("tests/dpalgos/test_tukey_em.py",),
    ),
    Fault(
        "TukeyEM publishes a point whatever its check says",
        "dpalgos/comparators/tukey_em.py",
        "return np.where(passed, points, 0.0)",
        "return points",
        ("tests/dpalgos/test_tukey_em.py",),
    ),
    Fault(
        "TukeyEM asks its check without noise",
        "dpalgos/comparators/tukey_em.py",
        "passed = released[0] > -np",
        "passed = distances[0] > -np",
        ("tests/dpalgos/test_tukey_em.py",),
    ),
    Fault(
        "the distance moves by half a model",
        "dpalgos/comparators/tukey_em.py",
        "DISTANCE_SENSITIVITY = 1.0",
        "DISTANCE_SENSITIVITY = 0.5",
        witness("tukey_em-tight"),
    ),
    Fault(
        "differences of rows are not clipped",
        "dpalgos/mechanisms/coinpress_covariance.py",
        "z *= norm / np.maximum(np.linalg.norm(z, axis=2, keepdims=True), norm)",
        "z *= 1.0",
        neighbors("coinpress_whitened_mean-tight"),
    ),
    Fault(
        "whitened rows are centred at their own mean",
        "dpalgos/comparators/coinpress_whitened_mean.py",
        "own - center.T[those, None]",
        "own - own.mean(axis=1, keepdims=True)",
        (*neighbors("coinpress_whitened_mean-tight"), "tests/dpalgos/test_peers.py"),
    ),
    # Guards.
    Fault(
        "a cell's settings override its budget",
        "tasks/work_units.py",
        "return {**self.params, **budget}",
        "return {**budget, **self.params}",
        ("tests/tasks/test_work_units.py",),
    ),
    Fault(
        "a config may set delta",
        "dpalgos/params.py",
        '"epsilon", "delta", "calibration", "rng"',
        '"epsilon", "calibration", "rng"',
        ("tests/flows/test_privacy_cli.py::test_refused_requests_cost_nothing",),
    ),
    Fault(
        "a plan is not compared with what was asked",
        "tasks/release.py",
        "    _check_plan(plan, epsilon, delta)\n",
        "",
        ("tests/flows/test_privacy_cli.py::test_a_plan_that_is_not_what_was_asked_is_never_charged",),
    ),
    Fault(
        "the same question is answered anew",
        "tasks/release.py",
        "replayed = charge.release is not None",
        "replayed = False",
        ("tests/flows/test_privacy_cli.py::test_a_release_is_charged_once_and_replayed",),
    ),
    Fault(
        "a budget never ends",
        "data/ledger/charging_rules.py",
        "    if verdict.accepted is True:\n",
        "    if verdict.accepted in (True, False):\n",
        ("tests/flows/test_privacy_cli.py::test_the_budget_ends",),
    ),
    Fault(
        "a renamed copy gets a budget of its own",
        "data/ledger/charging_rules.py",
        "    if names:\n        raise ContentRefused(",
        "    if len(names) > 1:\n        raise ContentRefused(",
        ("tests/flows/test_privacy_cli.py::test_a_renamed_copy_gets_no_new_budget",),
    ),
    Fault(
        "an older backup is put over newer charges",
        "data/ledger/backup.py",
        "elif chain.head not in backup.hashes and not forget_newer:",
        "elif False:",
        ("tests/data/ledger/test_backup.py",),
    ),
    Fault(
        "an edited backup is put back",
        "data/ledger/backup.py",
        "    _require_whole(backup, home, path)\n",
        "",
        ("tests/data/ledger/test_backup.py",),
    ),
    Fault(
        "a backup of a ledger that was rolled back replaces a later one",
        "data/ledger/backup.py",
        "    if path.exists() and (earlier",
        "    if not path.name and (earlier",
        ("tests/data/ledger/test_backup.py",),
    ),
    Fault(
        "a charge is made without room for its answer",
        "data/ledger/book.py",
        "                    self._database.reserve(_room_for_answer(request))\n",
        "",
        ("tests/data/ledger/test_faults.py",),
    ),
    Fault(
        "whatever lies in the shared store is believed",
        "data/shared_store.py",
        "if handle_sha256.hexdigest() != sha256:",
        "if False:",
        ("tests/data/test_shared_store.py",),
    ),
    Fault(
        "the index of private reports is anybody's",
        "tasks/report/render.py",
        "content, private=private)\n    return out",
        "content)\n    return out",
        ("tests/tasks/test_tasks.py",),
    ),
    Fault(
        "the report of a table of one's own goes to the server",
        "flows/artifacts.py",
        "    if spec.own is not None:\n        return\n",
        "",
        ("tests/flows/test_artifacts.py",),
    ),
    Fault(
        "a server stores text that it cannot give back",
        "flows/request_text.py",
        "ud[89ab][0-9a-f]{2}\\\\ud[c-f][0-9a-f]{2}|u(?!0000|d[89a-f])[0-9a-f]{4}",
        "u[0-9a-f]{4}",
        ("tests/flows/test_guarded_server.py",),
    ),
    Fault(
        "a report that is not for publication is copied to the shared store",
        "tasks/report/shared_reports.py",
        'or "warning" in json',
        'or "warnings" in json',
        ("tests/tasks/test_shared_reports.py",),
    ),
    Fault(
        "the manifest of a report stays in the shared store while its files are replaced",
        "tasks/report/shared_reports.py",
        '    remove_shared([f"{place}/{MANIFEST}"])\n',
        "",
        ("tests/tasks/test_shared_reports.py",),
    ),
    Fault(
        "a link beside a report is followed into the shared store",
        "tasks/report/shared_reports.py",
        " and not path.is_symlink()",
        "",
        ("tests/tasks/test_shared_reports.py",),
    ),
    Fault(
        "what another machine is writing to the shared store is pruned",
        "flows/shared_inventory.py",
        "if _is_old(file)",
        "",
        ("tests/flows/test_shared_inventory.py",),
    ),
    Fault(
        "noise may vanish",
        "dpalgos/mechanisms/checks.py",
        "values >= np.finfo(float).tiny",
        "values >= 0",
        ("tests/contract/test_absurd_bounds.py::test_a_transcript_refuses_what_no_noise_can_cover",),
    ),
    Fault(
        "bounds may be absurd",
        "dpalgos/mechanisms/checks.py",
        "if not SMALLEST_BOUND <= number <= LARGEST_BOUND:",
        "if not number <= LARGEST_BOUND:",
        ("tests/contract/test_absurd_bounds.py::test_absurd_bounds_are_refused_by_name[dp_mean]",),
    ),
    Fault(
        "a sample keeps the caller's array",
        "dpalgos/blocked_design.py",
        "        array = array.copy()\n",
        "        array = array.view()\n",
        ("tests/dpalgos/test_blocked_design.py",),
    ),
    *(
        Fault(what, "dpalgos/blocked_design.py", old, new, (f"tests/dpalgos/{test}.py",))
        for what, old, new, test in (
            (
                "streamed rows are not checked in later passes",
                "            self._check_values(_arrays(values))\n",
                "",
                "test_blocked_design",
            ),
            (
                "streamed columns are not checked in later passes",
                "if self.largest < np.inf or not float(np.dot(squares, squares)) <= LARGEST_VALUE**4:",
                "if False:",
                "test_blocked_design",
            ),
            (
                "responses that come along are not checked",
                '            _check_magnitudes("y", [responses])\n',
                "            pass\n",
                "test_blocked_design",
            ),
            (
                "a column does not count in the norm",
                "in columns[1:]:",
                "in columns[2:]:",
                "mechanisms/test_row_moments",
            ),
        )
    ),
    Fault(
        "large values of a stream are not looked at",
        "dpalgos/blocked_design.py",
        "if flat is None or not float(np.dot(flat, flat)) <= LARGEST_VALUE**2:",
        "if flat is None:",
        ("tests/dpalgos/test_blocked_design.py",),
    ),
    *(
        Fault(
            what,
            "dpalgos/mechanisms/row_moments.py",
            old,
            new,
            ("tests/dpalgos/mechanisms/test_row_moments.py",),
        )
        for what, old, new in (
            (
                "streamed rows are not clipped",
                "np.multiply(column, factors, out=clipped, dtype=float)",
                "clipped[:] = column",
            ),
            (
                "streamed rows are clipped to twice their bound",
                "_clip_factors(piece.squares, row_bound)",
                "_clip_factors(piece.squares, 2 * row_bound)",
            ),
            ("streamed responses are not truncated", "np.clip(y, -response_bound", "np.clip(y, -1e300"),
        )
    ),
    Fault(
        "a file that changes between charge and draw is not noticed",
        "data/user_table.py",
        "if _state(self.path) != self._state:",
        "if False:",
        ("tests/flows/test_streamed_release.py",),
    ),
    Fault(
        "a stream may grow",
        "dpalgos/blocked_design.py",
        'elif largest_magnitude("X", arrays) > self.largest:',
        "elif False:",
        ("tests/dpalgos/test_blocked_design.py",),
    ),
    # Results.
    Fault(
        "a private preparation is taken for granted",
        "tasks/run/block.py",
        "protected = problem.protected",
        "protected = True",
        ("tests/tasks/test_block.py",),
    ),
    Fault(
        "the standard error is the standard deviation",
        "reports/results.py",
        "by_cell.std(ddof=1) / np.sqrt(by_cell.count())",
        "by_cell.std(ddof=1)",
        ("tests/reports/test_results.py",),
    ),
    Fault(
        "genotypes are flipped",
        "data/group_difference.py",
        "centred = (counted - CENTER)",
        "centred = (CENTER - counted)",
        ("tests/data/test_group_difference.py",),
    ),
    Fault(
        "an audit is doubled",
        "tasks/run/audit_cell.py",
        "bound = found.epsilon_lower_bound",
        "bound = 2 * found.epsilon_lower_bound",
        ("tests/tasks/test_tasks.py",),
    ),
    Fault(
        "half of the rows are dropped",
        "tasks/run/collect.py",
        "pd.concat(map(pd.read_parquet, files), ignore_index=True)",
        "pd.concat(map(pd.read_parquet, files), ignore_index=True).iloc[::2]",
        ("tests/tasks/test_tasks.py",),
    ),
    Fault(
        "a claim holds at twice its epsilon",
        "tasks/scorecard/claims.py",
        "if shares.max() > 1 + 1e-9:",
        "if shares.max() > 2:",
        ("tests/tasks/test_claims.py",),
    ),
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the project, to be spoilt."""
    folder = tmp_path_factory.mktemp("copy") / "project"
    shutil.copytree(PROJECT, folder, ignore=LEFT_OUT)
    return folder


def run_tests(folder, tests):
    """Return pytest's exit status and what it printed, of the fast tests among these."""
    marks = "not slow and not network and not server and not browser and not audit"
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", marks, *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def test_every_fault_has_its_place_in_the_code():
    lost = [f.what for f in FAULTS if (PROJECT / f.file).read_text().count(f.old) != 1]
    assert lost == []  # code has moved; plant these where they belong now


@pytest.mark.slow
def test_the_tests_pass_where_nothing_is_planted(copy):
    tests = sorted({test for fault in FAULTS for test in fault.tests})
    status, printed = run_tests(copy, tests)
    assert status == 0, printed[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_planted_fault_is_caught(copy, fault):
    path = copy / fault.file
    whole = path.read_text()
    assert whole.count(fault.old) == 1, f"{fault.file} has changed; plant the fault where it belongs now"
    path.write_text(whole.replace(fault.old, fault.new))
    try:
        status, printed = run_tests(copy, fault.tests)
    finally:
        path.write_text(whole)
    assert status == 1, f"not caught (exit status {status}):\n{printed[-3000:]}"
