"""Which queues a worker's calls ask for, by HTTP and by the socket, is what a waiting job says."""

import pytest

from jobs import operations
from jobs.queries import reads
from tests.api.edges import callers
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def crew(server: Server) -> callers.Crew:
    """One worker whose key has two queues."""
    operations.sync()
    return callers.crew(server, "chat", "image")


def _why(queue: str) -> list[str]:
    job = operations.submit(queue, {})
    found = [reason.code for reason in reads.why_not_running(job.pk)]
    operations.cancel(job.pk, by=None)
    return found


class TestAWorkerThatNamesQueues:
    def test_over_http(self, crew: callers.Crew) -> None:
        assert crew.claim(queues=["image"], wait=0) == []
        assert (_why("chat"), _why("image")) == (["not_asked"], ["next"])

    def test_over_http_while_it_waits(self, crew: callers.Crew) -> None:
        assert crew.claim(queues=["image"], wait=0.2) == []
        assert (_why("chat"), _why("image")) == (["not_asked"], ["next"])

    def test_over_the_socket(self, crew: callers.Crew) -> None:
        with crew.socket() as socket:
            callers.ask(socket, type="claim", queues=["image"])
            assert (_why("chat"), _why("image")) == (["not_asked"], ["next"])
            callers.ask(socket, type="claim")
            assert (_why("chat"), _why("image")) == (["next"], ["next"])
