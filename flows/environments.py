"""Environments of the other libraries that a study calls."""

from flows.progress import say
from tasks.errors import SpecError
from tasks.external.environments import make_environment, python_of
from tasks.run_options import RunOptions
from tasks.study.spec import StudySpec


def make_environments(spec: StudySpec, options: RunOptions) -> None:
    """Create missing environments; profile smoke and --offline create none."""
    if options.profile == "smoke" or options.offline:
        return
    for requires in dict.fromkeys(spec.foreign().values()):
        if python_of(requires) is None:
            say(f"creating an environment with {', '.join(requires)}")
            try:
                make_environment(requires)
            except SpecError as error:
                say(f"note: {error}; its methods are skipped")
