"""The catalog of estimators: each module of the estimator packages registers its own when it is imported.

There is no other list of estimators. A single estimator is found by the name of its file. Listing imports
all.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from dpalgos.accounting.events import Relation
from dpalgos.errors import InputError, unknown_name
from dpalgos.mechanisms.sensitivity import Neighbors, Release
from dpalgos.mechanisms.witnesses import witnesses_of
from dpalgos.params import describe_keywords
from dpalgos.plugins import PluginError, load_plugins, outside_plugins
from dpalgos.rows.sample import Sample

if TYPE_CHECKING:  # commands that list estimators load less
    from dpalgos.core.estimator import AnyEstimator

__all__ = ["Estimator", "Form", "Neighbors", "Release"]
__all__ += ["catalog", "from_outside", "get_estimator"]
__all__ += ["register"]

LOCAL_PEOPLE = 6  # in the neighbors of local algorithms, enough for the groups that they query in turn
_PACKAGES = ("nonprivate", "central", "comparators", "local", "user_level")
_ESTIMATORS: dict[str, "Estimator"] = {}

DataCheck = Callable[[Sample, Any], None]
Registered = TypeVar("Registered", bound="type[AnyEstimator]")


@dataclass(frozen=True, kw_only=True)
class Form:
    """A setting of an estimator with other releases, which passes the same tests.

    Attributes
    ----------
    keywords : mapping
        Used together with the estimator's example.
    calibrations : tuple of str
        The calibrations of the form.
    protected : bool
        Whether its events prove anything at all; False for printed steps without sufficient noise.
    in_memory : bool
        Whether the form needs all rows in memory; None: same as the estimator.
    of_people : bool
        Whether the form protects people with all their rows.
    """

    keywords: Mapping[str, Any]
    calibrations: tuple[str, ...] = ("tight",)
    protected: bool = True
    in_memory: bool | None = None
    of_people: bool = False


@dataclass(frozen=True, kw_only=True)
class Estimator:
    """An entry of the catalog.

    Attributes
    ----------
    name : str
        As in :func:`dpalgos.estimate`.
    title : str
        The name on pages.
    task : str
        The kind of estimate: ``"linear_regression"``, ``"mean"``, …
    relation : Relation or None
        The neighboring relation; None for a non-private estimator.
    reference : str
        Paper and algorithm number.
    summary : str
        One sentence about the method.
    calibrations : tuple of str
        The available ones of ``"tight"`` and ``"paper"``; empty for non-private estimators.
    parameters : type
        The estimator's class, whose fields are its keywords.
    example : dict
        Public keywords that suit rows and responses of order one; used by the contract tests.
    public : str
        Further public inputs, in addition to its required keywords; empty if there are none.
    check_data : callable or None
        ``(sample, params)``: refuses unsuitable data, e.g. labels outside a family. A release calls it before
        it charges anything. The estimator does not rely on it.
    in_memory : bool
        Whether it needs all rows in memory; if not, it also accepts streamed blocks of rows.
    has_path : bool
        Whether it is a descent whose released iterates are in ``Result.path``.
    takes_people : bool
        Whether it also protects people with all their rows, if data come with user ids.
    no_interval : str
        The reason that it has no intervals, if its keywords have no ``interval``.
    no_release : str
        The reason that it cannot be released: what the estimate would disclose in addition to its events.
    order : int
        Stable number that determines its color in figures; equal numbers are sorted by name.
    forms : mapping of str to Form
        Settings that tests and audits cover in addition to the example.
    form : str
        The form of this entry; empty for the estimator itself.
    protected : bool
        See :class:`Form`.
    """

    name: str
    title: str
    task: str
    relation: Relation | None
    reference: str
    summary: str
    calibrations: tuple[str, ...]
    parameters: "type[AnyEstimator]"
    example: dict[str, Any] = field(default_factory=dict, hash=False)
    public: str = ""
    check_data: DataCheck | None = None
    in_memory: bool = False
    has_path: bool = False
    takes_people: bool = False
    no_interval: str = ""
    no_release: str = ""
    order: int = 1000
    forms: Mapping[str, Form] = field(default_factory=dict, hash=False)
    form: str = ""
    protected: bool = True

    @property
    def label(self) -> str:
        return f"{self.name}: {self.form}" if self.form else self.name

    @property
    def releases(self) -> tuple[Release, ...]:
        """Every release that the estimator may make."""
        return self.parameters.releases()

    @property
    def module(self) -> str:
        """The name of the module that defines the estimator."""
        return self.parameters.__module__

    @property
    def variants(self) -> list["Estimator"]:
        """The estimator, and one entry for each of its forms with that form's example."""
        return [
            self,
            *(
                replace(
                    self,
                    form=name,
                    example={**self.example, **form.keywords},
                    calibrations=form.calibrations,
                    protected=form.protected,
                    in_memory=self.in_memory if form.in_memory is None else form.in_memory,
                    relation=Relation.USER if form.of_people else self.relation,
                )
                for name, form in self.forms.items()
            ),
        ]

    @property
    def averages_people(self) -> bool:
        """Whether people are rows of their own means, for means and counts that protect people, too."""
        return self.takes_people and self.task in ("mean", "counts")

    def for_unit(self, *, people: bool) -> "Estimator":
        """Return the estimator as it protects rows, or people with all their rows if it can."""
        return replace(self, relation=Relation.USER) if people and self.takes_people else self

    @property
    def has_interval(self) -> bool:
        """Whether it takes the keyword ``interval``."""
        return self.takes("interval")

    def takes(self, keyword: str) -> bool:
        """Return whether it takes a keyword."""
        return keyword in self.parameters.__dataclass_fields__

    @property
    def private(self) -> bool:
        return self.relation is not None

    @property
    def privacy_model(self) -> str:
        """``"none"``, ``"central"``, ``"local"`` or ``"user"``."""
        return self.relation.model if self.relation else "none"

    @property
    def unit_of_privacy(self) -> str:
        """The protected unit: row, report or user; empty for a non-private estimator."""
        return self.relation.unit_of_privacy if self.relation else ""

    @property
    def neighboring_relation(self) -> str:
        """The change of that unit between neighbors; empty for a non-private estimator."""
        return self.relation.neighboring_relation if self.relation else ""

    def witnesses(self, params: Any, d: int) -> dict[str, Neighbors]:
        """Return neighbors (X, y, X', y') that attain each sensitivity, by description."""
        n_people = LOCAL_PEOPLE if self.relation is Relation.LOCAL else 1
        return witnesses_of(self.releases, params, d, n_people)

    def example_params(self, calibration: str) -> "AnyEstimator":
        """Return the keywords of the example; for a private estimator, with some ε and δ."""
        budget = {"epsilon": 1.0, "delta": 1e-5, "calibration": calibration} if self.private else {}
        return self.parameters.build(self.label, {**budget, **self.example})

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain data."""
        plain = ("name", "title", "task", "privacy_model", "unit_of_privacy", "neighboring_relation")
        return {
            **{key: getattr(self, key) for key in (*plain, "reference", "summary", "public")},
            "calibrations": list(self.calibrations),
            "interval": self.has_interval,
            "parameters": describe_keywords(self.parameters),
        }


def register(
    *,
    name: str,
    relation: Relation | None = Relation.CENTRAL,
    in_memory: bool = False,
    **settings: Any,
) -> Callable[[Registered], Registered]:
    """Add the decorated class to the catalog; the arguments are the fields of :class:`Estimator`."""

    def add(registered: Registered) -> Registered:
        from dpalgos.core.estimator import AnyEstimator  # here: commands that list estimators load less

        if not isinstance(registered, type) or not issubclass(registered, AnyEstimator):
            raise PluginError(f"{name} must be a class that derives from PrivateEstimator or PublicEstimator")
        # The names of dpalgos are reserved, whatever is imported first.
        if not registered.__module__.startswith("dpalgos."):
            for package in _PACKAGES:
                load_plugins(f"dpalgos.{package}")
        calibrations = settings.pop("calibrations", ("tight", "paper")) if relation else ()
        entry = Estimator(
            name=name,
            relation=relation,
            calibrations=calibrations,
            parameters=registered,
            in_memory=in_memory or relation in (Relation.USER, Relation.LOCAL),
            **settings,
        )
        _drop_broken()
        if faults := [*_faults_of_class(registered), *_faults(entry)]:
            raise PluginError("; ".join(faults))
        _ESTIMATORS[name] = entry
        return registered

    return add


def _faults_of_class(registered: type["AnyEstimator"]) -> Iterator[str]:
    """Yield what is forgotten in the class of an estimator, with what to write."""
    if "__dataclass_params__" not in vars(registered):
        yield (
            f"{registered.__name__} must be a dataclass; write @dataclass(frozen=True, kw_only=True) between "
            "@register(…) and the class"
        )
    for method in sorted(registered.__abstractmethods__):
        yield f"{registered.__name__} must define {method}; see docs/contributing/adding/estimator.md"
    for label, each in registered.lemmas.items():
        for lemma in each if isinstance(each, tuple) else (each,):
            if not hasattr(lemma, "formula") or not hasattr(lemma, "of"):
                name = getattr(lemma, "__name__", type(lemma).__name__)
                yield (
                    f"lemmas[{label!r}] must be a lemma, got {name}; write its formula above the function "
                    'that computes the sensitivity, e.g. @lemma("2B/n")'
                )


def _faults(entry: Estimator) -> Iterator[str]:
    for other in _ESTIMATORS.values():
        where = f"the estimator of {other.module}"
        if other.module != entry.module and other.name == entry.name:
            yield f"name must be a new one, got {entry.name!r}, {where}; rename one of them"
    for key in ("title", "reference", "summary"):
        if not getattr(entry, key).strip():
            yield f"{key} must not be empty"
    for item in describe_keywords(entry.parameters):
        if not item["doc"]:
            yield f"keyword {item['name']} has no documentation"
    if entry.private and not entry.has_interval and not entry.no_interval:
        yield "no_interval must say why the estimator has no intervals"
    if entry.private and not entry.releases:
        yield "releases must be declared for a private estimator"
    for each in entry.variants:
        if unknown := set(each.calibrations) - {"tight", "paper"}:
            yield f"calibrations must be 'tight' or 'paper', got {', '.join(map(repr, sorted(unknown)))}"
            continue
        if each.private and not each.calibrations:
            yield "calibrations must hold 'tight' or 'paper', got none"
        if entry.module.startswith("dpalgos."):  # contract tests build its examples, once and for all
            continue
        for calibration in each.calibrations or ("",):
            try:
                each.example_params(calibration)
            except (InputError, TypeError) as error:
                yield f"example must suit the keywords of {each.label}: {error}"


def catalog() -> list[Estimator]:
    """Return every estimator, sorted by name."""
    _discover()
    _drop_broken()
    return [_ESTIMATORS[name] for name in sorted(_ESTIMATORS)]


def get_estimator(name: str) -> Estimator:
    """Return one entry of the catalog.

    Parameters
    ----------
    name : str
        Name of an estimator, e.g. ``"preconditioned_regression"``.

    Returns
    -------
    Estimator
        Its parameters, releases, privacy model and function.

    Raises
    ------
    InputError
        If there is no such name; the message names the nearest match.
    """
    if isinstance(name, str) and (known := _ESTIMATORS.get(name)):
        return known
    if not _imported_alone(name):
        _discover()
    _drop_broken()
    if not isinstance(name, str) or name not in _ESTIMATORS:
        for package in _PACKAGES:
            if reason := load_plugins(f"dpalgos.{package}").broken.get(str(name)):
                raise InputError(f"estimator {name!r} cannot be used: {reason}; correct that file")
        raise unknown_name("estimator", name, _ESTIMATORS)
    return _ESTIMATORS[name]


def _imported_alone(name: object) -> bool:
    """Import the file of that name, without the other estimators; return whether it registered one.

    Presets are in one file; their names begin with its name.
    """
    if not isinstance(name, str) or not name.isidentifier():
        return False
    file = name
    while file and name not in _ESTIMATORS:
        modules = [f"dpalgos.{package}.{file}" for package in _PACKAGES]
        try:
            for module in filter(find_spec, modules):
                import_module(module)
        except (Exception, SystemExit):  # importing all estimators reports the reason
            _drop_broken()
        file = file.rpartition("_")[0]
    return name in _ESTIMATORS


@cache
def _discover() -> None:
    """Import all estimators."""
    for package in _PACKAGES:
        load_plugins(f"dpalgos.{package}")
    outside_plugins()


def _drop_broken() -> None:
    """Drop the entries of modules whose import failed."""
    for name in [name for name, entry in _ESTIMATORS.items() if entry.module not in sys.modules]:
        del _ESTIMATORS[name]


def from_outside() -> list[Estimator]:
    """Return the estimators of external plugins."""
    modules = outside_plugins().modules
    return [entry for entry in catalog() if entry.module in modules] if modules else []
