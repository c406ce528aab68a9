"""`manage.py cluster --once`, in a process of its own: what is due now, of one kind, in the queues it was given."""

import os

import pytest
from django.db import connection

from scheduling import operations as scheduling
from scheduling.models import ScheduledFunction
from tests import forkserver
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)


def once(*words: str) -> str:
    """What the command says."""
    environment = {**os.environ, "JOBFARM_TEST_DATABASE": str(connection.settings_dict["NAME"])}
    command = ["manage.py", "cluster", "--once", *words]
    ran = forkserver.run(command, env=environment, timeout=60, loaded=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


class TestOnce:
    @pytest.mark.parametrize("kind", ["--actions", "--mutations"])
    def test_keeps_to_its_kind_and_its_queues(self, kind: str) -> None:
        queues = ("mail", "bulk", "default")
        actions = {queue: scheduling.run_after(0, sample.say, word="x", queue=queue).pk for queue in queues}
        mutations = {queue: scheduling.run_after(0, sample.nothing, queue=queue).pk for queue in queues}
        ours, others = (actions, mutations) if kind == "--actions" else (mutations, actions)
        assert once(kind, "--queue", "mail") == "1 run"
        assert pending() == {*others.values(), ours["bulk"], ours["default"]}
        assert once(kind, "--queue", "bulk", "--queue", "default") == "2 run"
        assert pending() == {*others.values()}


def pending() -> set[int]:
    """The functions that have not started."""
    return set(ScheduledFunction.objects.filter(status="pending").values_list("pk", flat=True))
