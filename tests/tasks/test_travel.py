"""Tasks travel to the workers of other engines: what they hold must be pickled."""

import cloudpickle
import pytest

from tasks.run.audit_cell import audit
from tasks.run.collect import collect
from tasks.run.exhibit import exhibit
from tasks.run.prepare import prepare
from tasks.run.run_block import data_limit, run_block


@pytest.mark.parametrize("task", [audit, collect, data_limit, exhibit, prepare, run_block])
def test_a_task_can_be_pickled(task):
    assert cloudpickle.loads(cloudpickle.dumps(task)).name == task.name
