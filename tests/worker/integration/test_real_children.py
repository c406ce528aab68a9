"""Jobs that a job submits and waits for, with the real worker and the real server, over both transports."""

import threading
from typing import Any

import pytest

from jobfarm_worker import Handlers, Job as HeldJob
from jobs import operations
from jobs.models import Attempt, Job, Step
from tests import documented
from tests.farm import lose, until
from tests.servers import Server
from tests.worker.integration.test_real_server import ended, one_job, working

pytestmark = pytest.mark.django_db(transaction=True)


class TestJobsOfItsOwn:
    def test_are_submitted_and_waited_for_as_printed_without_the_slot_that_they_need(
        self, server: Server, transport: Any
    ) -> None:
        printed: dict[str, Any] = {}
        exec(documented.block("flows.md", "from jobfarm_worker import Handlers"), printed)
        with working(server, printed["handlers"], transport=transport, concurrency=1):
            job = one_job({"pages": ["a", "bc", "def"]})
            assert ended(job) == "success"
        assert Job.objects.whole().get(pk=job.pk).result == {"characters": 6}
        positions = Step.objects.filter(parent=job.pk).order_by("position").values_list("position", flat=True)
        assert list(positions) == [0, 1, 2]
        assert Attempt.objects.values_list("job_id", "outcome").get() == (job.pk, "suspended")

    def test_a_signal_and_a_moment_are_waited_for_as_printed(self, server: Server, transport: Any) -> None:
        printed: dict[str, Any] = {}
        exec(documented.block("flows.md", "from datetime import UTC"), printed)
        with working(server, printed["handlers"], transport=transport):
            jobs = [one_job({"rest_s": 0.5}) for _ in range(2)]
            until(lambda: Attempt.objects.filter(outcome="suspended").count() == 2, what="the waits")
            exec(documented.block("flows.md", "jobs.signal("), {"jobs": operations, "job_id": jobs[0].pk})
            operations.signal(jobs[1].pk, "approved", {"verdict": "drop it"}, by=None)
            assert [ended(job) for job in jobs] == ["success"] * 2
        assert [Job.objects.whole().get(pk=job.pk).result for job in jobs] == ["sent", "dropped"]
        assert set(Attempt.objects.values_list("outcome", "attempt")) == {("suspended", None)}

    def test_a_signal_by_a_key_is_waited_for_as_printed(self, server: Server, transport: Any) -> None:
        printed: dict[str, Any] = {"handlers": Handlers()}
        exec(documented.block("flows.md", '@handlers.handler("work")\ndef preview'), printed)
        with working(server, printed["handlers"], transport=transport):
            job = one_job({"pull_request": "ada/engine#7"})
            until(lambda: Attempt.objects.filter(outcome="suspended").exists(), what="the wait")
            exec(documented.block("flows.md", "jobs.signal_by_key"), {"jobs": operations})
            assert ended(job) == "success"
        assert Job.objects.whole().get(pk=job.pk).result == {"merged": True}

    def test_of_a_plain_function_that_was_lost_are_submitted_once(self, server: Server, transport: Any) -> None:
        handlers, reached = Handlers(), threading.Event()

        @handlers.handler("work")
        def work(job: HeldJob) -> Any:
            if isinstance(job.payload, int):
                return job.payload
            children = [job.submit("work", n) for n in range(2)]
            if job.attempt == 1:
                reached.set()
                while True:
                    job.pause(0.1)
            return [one.result for one in job.after] or job.wait_for(children)

        with working(server, handlers, transport=transport, concurrency=3):
            job = one_job("parent")
            assert reached.wait(20)
            lose(job)
            assert ended(job) == "success"
        assert Job.objects.whole().get(pk=job.pk).result == [0, 1]
        assert Job.objects.count() == 3
