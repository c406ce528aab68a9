"""A crash before any statement: what was not told as done is done again, what was done is done once.

A process that dies is one whose connection ends in the middle and that says nothing more. Here that happens before the
first statement, before the second, and so on, until one run comes to its end undisturbed.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from jobs.models import Job
from scheduling import operations as scheduling
from scheduling.models import ScheduledFunction
from tests import farm
from tests.webhook_samples import sample, samples, written
from tests.webhooks.edges import emptying
from tests.webhooks.inbox import starts
from tests.webhooks.inbox.support import new, pass_time, pending, receive
from webhooks.domain.deliveries import Filter, Source
from webhooks.handlers.registry import Event
from webhooks.models import Activity, Delivery, DeliveryAttempt, JobStart
from webhooks.models.resources import GithubIssue
from webhooks.operations import drain_sandbox_queue, keep, replay_matching

pytestmark = pytest.mark.usefixtures("transactional_db")

OPENED = sample("github/issues.opened.1.json")


class Killed(BaseException):
    """No error, so that nothing handles it: the process is gone, and whatever it would do now does not happen."""


@contextmanager
def killed_before(number: int) -> Iterator[list[bool]]:
    """This statement of the block (1 is the first) is its last; what is given holds whether it came to that."""
    counted = itertools.count(1)
    died: list[bool] = []

    def run(execute: Callable[..., Any], *args: Any) -> Any:
        if died or next(counted) == number:
            if not died:
                connection.connection.pgconn.finish()
            died.append(True)
            raise Killed
        return execute(*args)

    try:
        with connection.execute_wrapper(run):
            yield died
    except BaseException:
        if not died:
            raise
    finally:
        if died:
            connection.close()


def everywhere(do: Callable[[], object], *, before: Callable[[], object], after: Callable[[], None]) -> int:
    """Kill `do` before each of its statements, each time in a world of its own; how many there are."""
    for number in itertools.count(1):
        emptying.empty()
        before()
        with killed_before(number) as died:
            do()
        after()
        if not died:
            return number - 1
    raise AssertionError


def stored() -> list[dict[str, Any]]:
    """The deliveries as they stand, with everything that was to be done about them."""
    fields = ("pk", "delivery_id", "status", "attempts", "duplicates")
    rows: list[dict[str, Any]] = list(Delivery.objects.order_by("pk").values(*fields))
    return [*rows, *({"run": run.args["delivery"], "status": run.status} for run in pending())]


class TestReceiving:
    def test_stores_a_delivery_with_its_run_or_neither(self) -> None:
        """Three at once: a new one, a duplicate, and one that had failed and is to be processed again."""
        batch = [new(delivery_id="new"), new(delivery_id="known"), new(delivery_id="dead")]
        first: list[list[dict[str, Any]]] = []

        def before() -> None:
            receive(delivery_id="known")
            dead = receive(delivery_id="dead")
            Delivery.objects.filter(pk=dead.pk).update(status="dead", note="x", ended_at=dead.received_at)
            first.append(stored())

        def after() -> None:
            if stored() == first[-1]:
                keep(batch)  # its sender was not answered, and comes again
            rows = {row["delivery_id"]: row for row in stored() if "delivery_id" in row}
            assert {name: (row["status"], row["duplicates"]) for name, row in rows.items()} == {
                "new": ("received", 0),
                "known": ("received", 1),
                "dead": ("received", 1),
            }
            runs = sorted(row["run"] for row in stored() if "run" in row)
            assert runs == sorted([rows[name]["pk"] for name in ("new", "known", "dead", "dead")])

        assert everywhere(lambda: keep(batch), before=before, after=after) >= 5


class TestProcessing:
    @pytest.mark.usefixtures("alone")  # which leaves no jobs to the tests after it
    def test_writes_everything_or_nothing_and_runs_again(self) -> None:
        farm.kind("triage")
        had: list[int] = []

        def before() -> None:
            starts.rule(name="kept", event="issues.*", kind="triage", payload={})
            receive(body=OPENED.body, event_type="issues.opened")
            had.append(Job.objects.count())

        def counts() -> set[int]:
            written_to: tuple[Any, ...] = (DeliveryAttempt, GithubIssue, Activity, JobStart)
            return {Job.objects.count() - had[-1], *(model.objects.count() for model in written_to)}

        def after() -> None:
            delivery = Delivery.objects.get()
            assert (delivery.status, counts()) in [("received", {0}), ("processed", {1})]
            pass_time()
            delivery.refresh_from_db()
            assert (delivery.status, delivery.attempts, delivery.tries) == ("processed", 1, 1)
            assert counts() == {1}
            assert [run.status for run in ScheduledFunction.objects.all()] == ["success"]

        assert everywhere(scheduling.run_due, before=before, after=after) >= 8

    def test_that_fails_is_counted_once_with_its_next_attempt(self, handle: Callable[[str, str, Any], None]) -> None:
        def fails(event: Event) -> None:
            GithubIssue.objects.create(type="githubissue", external_id=event.delivery_id, state_key="k")
            raise RuntimeError("no luck")

        def after() -> None:
            delivery = Delivery.objects.get()
            if delivery.status == "received":
                assert not DeliveryAttempt.objects.exists()
                pass_time()
                delivery.refresh_from_db()
            assert (delivery.status, delivery.attempts, delivery.note) == ("failed", 1, "RuntimeError: no luck")
            assert DeliveryAttempt.objects.get().number == 1
            assert not GithubIssue.objects.exists()
            [run] = pending()
            assert run.run_at >= (delivery.next_attempt_at or run.run_at)

        handle("github", "probe", fails)
        assert everywhere(scheduling.run_due, before=receive, after=after) >= 8

    def test_of_a_batch_of_telemetry_goes_on_with_the_next(self) -> None:
        bodies = [one.body for one in samples() if one.source == "sandbox_telemetry"][:3]

        def before() -> None:
            for number, body in enumerate(bodies):
                given = {"source": Source.SANDBOX_TELEMETRY, "event_type": "batch", "delivery_id": f"m{number}"}
                receive(body=body, **given)

        def after() -> None:
            farm.until(are_processed, what="the end of all: the server may still hold what the killed one had locked")
            seen.append(written()["SandboxTelemetry"])

        def are_processed() -> bool:
            drain_sandbox_queue()
            return list(Delivery.objects.values_list("status", "tries")) == [("processed", 1)] * 3

        seen: list[Any] = []
        assert everywhere(drain_sandbox_queue, before=before, after=after) >= 8
        assert all(len(rows) == len(seen[0]) > 0 for rows in seen)


class TestReplayingMany:
    def test_takes_each_once_however_often_it_is_killed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("webhooks.operations.attempts.BATCH", 2)

        def before() -> None:
            keep([new(delivery_id=f"d{number}") for number in range(3)])
            scheduling.run_due()
            begun = replay_matching(Filter(statuses=()))
            assert begun is not None
            assert begun.matched == 3

        def after() -> None:
            while pending():
                pass_time()
            assert list(Delivery.objects.values_list("status", "attempts", "tries")) == [("ignored", 1, 2)] * 3

        assert everywhere(scheduling.run_due, before=before, after=after) >= 8
