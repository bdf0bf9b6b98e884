"""What `dpcost init` writes: the words of a study file and of a release file, to be filled in."""

from dataclasses import dataclass, replace

NUMBERS = """\
lower = "?"    # the least that it can be: from general knowledge, never from these data
upper = "?"    # the most that it can be: from general knowledge, never from these data
# center = 45.0    # optional: a typical value, guessed; the middle of the bounds if left out
# scale = 15.0     # optional: how far values lie from it; a quarter of the distance of the bounds if left out
"""
TEXT = """\
categories = ["?"]    # every text that it can hold, the first to compare with: never read off these data
"""
SOURCE = """\
source = "?"    # how you know, for the report
"""
OF_ROWS = """\
    # public: neighbors differ in what one row holds, not in how many there are
# Several rows of one person? Write this file anew with dpcost init --user-id COLUMN: people are protected.
privacy_unit = "?"    # whose values a row holds, e.g. "one row, a patient\""""
OF_USERS = """
user_id = {user_id}    # whose row it is: what is protected is a user with all rows
users = {users}    # public: neighbors differ in what one user's rows hold, not in how many users there are
privacy_unit = "?"    # who such a user is, e.g. "a patient with all visits\""""
STUDY = """\
# {name}: what privacy costs on a table of your own. Written by `dpcost init`, to be completed by you.
#
# Wherever "?" stands, say what is public. Take it from a codebook, a law or common knowledge, never from the
# data: a bound that they decide tells something about them. `dpcost run {name}.toml` says which line is next.
# The report compares with the true answer on your data and is not for publication; `dpcost release` is.

version = {version}    # of what study files look like
title = {title}
question = {question}
task = "{task}"
size_label = "{size}"
metric_label = "ℓ2 distance to the answer of all rows, per standard deviation of a column"
{deleted}
[data]
path = {path}
rows = {rows}{unit}
missing = "refuse"    # or "drop" rows with a missing cell; or impute = 0.0, a constant, below a column's name
outside = "refuse"    # or "clip": numbers beyond the bounds below become the nearer one, and are counted
{left_out}
# Delete the columns that you do not need. Units are (value - center) / scale: where center and scale are near
# mean and standard deviation, errors may be several times smaller, so state them wherever you can guess them.
# unit = "years" is for the report.
{columns}
[grid]
n = {sizes}
epsilon = [0.5, 1.0, 3.0]
delta = ["1/n^2"]

[replicates]
smoke = 3
standard = 20
paper = 100

[headline]
n = {largest}
epsilon = 0.5
delta = "1/n^2"
panel = "public"

[[panels]]
name = "public"
about = "Columns are put into public units{intercept}; the guarantee covers this."
problem = {problem}

{estimators}
# For `dpcost advise {name}.toml`, which reads no data: what you guess of the table, from a codebook, a
# published table or common knowledge, never from these data. All of it is optional. What you state is taken
# to be nearly true, the rest may be anything within reason: errors are foreseen as a range, narrower if you
# state more.
# [guesses]
# source = "a codebook"    # how you know
{guesses}"""
GUESSED_NUMBERS = """\
# mean = {{ {one} = 40.0 }}    # by column: where the center of its units is no guess of it
# std = {{ {one} = 15.0 }}    # by column: where the scale of its units is no guess of it
"""
GUESSED_TEXT = """\
# shares = {{ {one} = [0.6, 0.4] }}    # how frequent the categories are, in their order
"""
GUESSED_PAIRS = """\
# correlation = 0.2    # of any two columns but these
# correlations = [[{one}, {other}, 0.8]]    # columns that tell much the same, or go against each other
"""
GUESSED_RESPONSE = """\
# explained = 0.5    # the share of the variance of {response} that the other columns explain
# effects = {{ {one} = 0.5 }}    # which columns matter, beside each other (per standard deviation)
"""
RELEASE = """\
# One private answer about {file}, for publication: written by `dpcost init`.
#     dpcost ledger open {name} --epsilon 1 --delta 1e-6
#     dpcost release {estimator} --data {file} --config {name}-release.toml {asked}
# Complete {name}.toml first: it declares the columns. They are put into its units, text becomes columns of
# 0 and 1, and a regression gets an intercept, the answer "{at_centers}" of all covariates (of text: with all
# its categories counted alike). What is released is in the units of {file}. Where rows with missing cells are
# dropped they add nothing to a regression; means need impute.

[dataset]
name = "{name}"
study = "{name}.toml"

[columns]
# x = {x}    # if not all{but_response} that {name}.toml declares
{y}{user_id}
[bounds]{in_units}
{bounds}
[params]
{params}"""


@dataclass(frozen=True, kw_only=True)
class InitModel:
    """What a study can fit, with the estimators that suit it.

    Attributes
    ----------
    answer : str
        In words.
    task : str
        The study's.
    family : str
        Of a generalized linear model; empty for others.
    estimators : str
        In the study's units, where sqrt(d) is the length of a row of d entries of order one.
    release, bounds, params : str
        The estimator for publication, and what its owner has to declare.
    """

    answer: str
    task: str
    family: str = ""
    estimators: str
    release: str
    bounds: str = ""
    params: str = ""

    def with_sparsity(self, sparsity: int) -> "InitModel":
        """Return the model with its owner's number of entries that are not zero."""
        told = {
            name: getattr(self, name).replace(_SPARSITY, str(sparsity)) for name in ("estimators", "params")
        }
        return replace(self, **told)


_SPARSITY = "SPARSITY"
_ZERO_AND = """\
[[estimators]]
name = "zero"

[[estimators]]
name = """
_VALUE = "value_bound = 2.0    # every value is clipped to plus or minus this\n"
_ENTRIES = "covariate_bound = 2.0    # every value of x is clipped to plus or minus this\n"
_RESPONSE = "response_bound = 2.0    # y is clipped to plus or minus this\n"
_RADIUS = 'concentration_radius = "?"    # of their mean most users lie within this distance; accuracy only\n'
_SPARSE = "sparsity = SPARSITY    # how many entries of the answer are not zero\n"

MODELS = {
    "mean": InitModel(
        answer="means",
        task="mean",
        estimators=_ZERO_AND
        + """\
"sample_mean"

[[estimators]]
name = "dp_mean"
calibrations = ["tight"]
params = { value_bound = 2.0 }

[[estimators]]
name = "box_mean"
calibrations = ["tight"]
params = { lower = -2.0, upper = 2.0 }
""",
        release="dp_mean",
        bounds=_VALUE,
    ),
    "sparse mean": InitModel(
        answer="means of which few are far from zero",
        task="mean",
        estimators=_ZERO_AND
        + """\
"sample_mean"

[[estimators]]
name = "sparse_sample_mean"
params = { sparsity = SPARSITY }

[[estimators]]
name = "dp_mean"
calibrations = ["tight"]
params = { value_bound = 2.0 }

[[estimators]]
name = "dp_sparse_mean"
calibrations = ["tight"]
params = { value_bound = 2.0, sparsity = SPARSITY }
""",
        release="dp_sparse_mean",
        bounds=_VALUE,
        params=_SPARSE,
    ),
    "user mean": InitModel(
        answer="means in which each user counts once",
        task="mean",
        estimators=_ZERO_AND
        + """\
"sample_mean"

[[estimators]]
name = "user_level_mean"
calibrations = ["tight"]
params = { value_bound = 2.0, concentration_radius = "2*sqrt(d)" }

[[estimators]]
name = "user_level_mean"
form = "clipped per user"
about = "Users' means are clipped to the public bound."
calibrations = ["tight"]
params = { value_bound = 2.0, concentration_radius = "2*sqrt(d)", aggregation = "clipped" }
""",
        release="user_level_mean",
        bounds=_VALUE + _RADIUS,
        params='aggregation = "clipped"    # or "winsorized", for thousands of users\n',
    ),
    "user linear": InitModel(
        answer="linear regression in which each user counts once",
        task="linear_regression",
        estimators=_ZERO_AND
        + """\
"ols"

[[estimators]]
name = "user_level_regression"
form = "clipped per user"
about = "Users' mean gradients are clipped to the public bound."
calibrations = ["tight"]

[estimators.params]
loss = "squared"
aggregation = "clipped"
gradient_bound = "sqrt(d)/2"
concentration_radius = "sqrt(d)/2"
radius = 2.0
n_iterations = 20
step_size = "2/d"

[[estimators]]
name = "user_level_regression"
about = "For thousands of users: noise in proportion to how far they lie from each other."
calibrations = ["tight"]

[estimators.params]
loss = "squared"
gradient_bound = "sqrt(d)/2"
concentration_radius = "sqrt(d)"
radius = 2.0
n_iterations = 10
step_size = "2/d"
""",
        release="user_level_regression",
        bounds='gradient_bound = "?"    # users\' mean gradients are clipped to this length; public\n'
        + _RADIUS
        + 'radius = "?"    # coefficients are looked for within this distance of zero; public\n',
        params="""\
loss = "squared"
aggregation = "clipped"    # or "winsorized", for thousands of users
n_iterations = 20
step_size = "?"    # 1 over the mean squared length of a row of x, roughly; public
""",
    ),
    "linear": InitModel(
        answer="linear regression",
        task="linear_regression",
        estimators=_ZERO_AND
        + """\
"ols"

[[estimators]]
name = "preconditioned_regression"
calibrations = ["tight"]

[[estimators]]
name = "adassp"
calibrations = ["tight"]
params = { covariate_bound = "sqrt(d)", response_bound = 2.0 }
""",
        release="preconditioned_regression",
    ),
    "sparse linear": InitModel(
        answer="linear regression on few of the columns",
        task="linear_regression",
        estimators=_ZERO_AND
        + """\
"ols"

[[estimators]]
name = "iht_linear_regression"
params = { sparsity = SPARSITY }

[[estimators]]
name = "preconditioned_regression"
calibrations = ["tight"]

[[estimators]]
name = "screened_sparse_regression"
calibrations = ["tight"]
params = { covariate_bound = 2.0, response_bound = 2.0, sparsity = SPARSITY }
""",
        release="screened_sparse_regression",
        bounds=_ENTRIES + _RESPONSE,
        params=_SPARSE,
    ),
    "logistic": InitModel(
        answer="logistic regression",
        task="glm",
        family="logistic",
        estimators=_ZERO_AND
        + """\
"glm"
params = { family = "logistic" }

[[estimators]]
name = "preconditioned_glm"
calibrations = ["tight"]
params = { family = "logistic" }

[[estimators]]
name = "objective_perturbation_glm"
calibrations = ["tight"]
params = { family = "logistic", covariate_bound = "sqrt(d)" }
""",
        release="preconditioned_glm",
        params='family = "logistic"\n',
    ),
    "poisson": InitModel(
        answer="Poisson regression",
        task="glm",
        family="poisson",
        estimators=_ZERO_AND
        + """\
"glm"
params = { family = "poisson" }

[[estimators]]
name = "preconditioned_glm"
calibrations = ["tight"]
params = { family = "poisson" }

[[estimators]]
name = "dp_glm"
calibrations = ["tight"]

[estimators.params]
family = "poisson"
covariate_bound = "sqrt(d)"
response_bound = 10.0
n_iterations = 20
step_size = "0.5/d"
""",
        release="preconditioned_glm",
        params='family = "poisson"\n',
    ),
    "multinomial": InitModel(
        answer="multinomial regression",
        task="glm",
        family="multinomial",
        estimators=_ZERO_AND
        + """\
"glm"
params = { family = "multinomial", n_classes = "K" }

[[estimators]]
name = "preconditioned_glm"
calibrations = ["tight"]
params = { family = "multinomial", n_classes = "K" }

[[estimators]]
name = "dp_glm"
calibrations = ["tight"]

[estimators.params]
family = "multinomial"
n_classes = "K"
covariate_bound = "sqrt(d)"
n_iterations = 20
step_size = "2/d"
""",
        release="preconditioned_glm",
        params="""\
family = "multinomial"
n_classes = "?"    # how many categories y has
""",
    ),
}
