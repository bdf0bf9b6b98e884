import pickle

import pytest

from data.errors import StoreError, Unreachable
from dpalgos import InputError
from tasks.errors import Fault, SpecError, guarded, without_message
from tasks.size_rules import delta_at


@guarded
def raising(error):
    raise error


@pytest.mark.parametrize(
    "error", [InputError("n"), SpecError("s"), StoreError("f"), Unreachable("u", transient=True)]
)
def test_what_a_user_can_mend_leaves_as_it_is(error):
    with pytest.raises(type(error)) as left:
        raising(error)
    assert left.value is error


@pytest.mark.parametrize("error", [ValueError("secret 42.5"), KeyError("secret"), OSError("bytes: secret")])
def test_any_other_leaves_without_its_message_and_its_cause(error):
    with pytest.raises(Fault) as left:
        raising(error)
    assert str(left.value).startswith(f"{type(error).__name__} in tests/tasks/test_errors.py:")
    assert "raising" in str(left.value)
    assert left.value.__suppress_context__
    assert "secret" not in repr(left.value) + str(left.value.frames)


def test_the_place_is_the_innermost_of_this_project():
    @guarded
    def computing():
        return delta_at(None, 1)

    with pytest.raises(Fault, match=r"^TypeError in tasks/size_rules\.py:\d+ \(delta_at\)$"):
        computing()


def test_a_fault_passes_through_and_between_processes():
    fault = without_message(ValueError("secret"))
    assert without_message(fault) is fault
    copy = pickle.loads(pickle.dumps(fault))
    assert str(copy) == str(fault)
    assert copy.frames == fault.frames
