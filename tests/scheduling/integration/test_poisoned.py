"""One poisoned entry is put aside, with its reason shown, and the others go on: in everything here that does something
for many at once."""

import uuid
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.db.models.expressions import RawSQL

from jobfarm import health, scheduler_health
from jobfarm.findings import Finding
from postgres import clock, statements
from scheduling import operations as scheduling, registry
from scheduling.domain import schedules
from scheduling.errors import BadSchedule, UnknownFunction
from scheduling.models import Cron, Due, ScheduledFunction
from scheduling.operations import clusters, crons, endings, notifications
from scheduling.queries.functions import Report, report
from tests.doctor import named_errors
from tests.scheduling import spoiled
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)
SAY = registry.dotted_name(sample.say)


@pytest.fixture(autouse=True)
def own_crons(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests declare crons of their own."""
    monkeypatch.setattr(crons, "_declared", {})
    Cron.objects.all().delete()


class TestACronThatCannotBeFired:
    @pytest.mark.parametrize(
        ("poison", "reason"),
        [
            ({"schedule": "every 324000000000 s"}, "an interval is from one second to five years"),
            ({"schedule": "every now and then"}, "is no number of seconds"),
            ({"schedule": "0 6 * * * in Mars/Phobos"}, "there is no time zone"),
            ({"missed": "never"}, "'never' is not a valid Missed"),
            ({"overlap": "maybe"}, "'maybe' is not a valid Overlap"),
            ({"at_most": 0}, "at_most is from 1"),
            ({"function": "tests.scheduling.integration.breaks_when_imported.run"}, "RuntimeError: not today"),
            ({"function": "tests.scheduling.integration.breaks_without_a_word.run"}, "raised Unprintable: its text"),
        ],
    )
    def test_is_paused_with_the_reason_and_the_others_fire(self, poison: dict[str, object], reason: str) -> None:
        spoiled.due_cron("a broken one", **poison)
        spoiled.due_cron("whole")
        assert [row.cron_id for row in scheduling.fire_due()] == ["whole"]
        broken = Cron.objects.get(pk="a broken one")
        assert broken.paused_at is not None
        assert reason in (broken.pause_reason or "")
        assert scheduling.upcoming(broken) == []

    def test_does_so_too_when_its_arguments_cannot_be_read_or_its_firing_not_be_written(self) -> None:
        for name in ("unreadable", "long", "whole"):
            spoiled.due_cron(name)
        spoiled.spoil("scheduling_cron", "name", "unreadable")
        with connection.cursor() as cursor:  # what the database refuses: the cron's own row may be anything
            cursor.execute(
                "ALTER TABLE scheduling_scheduledfunction ADD CONSTRAINT x CHECK (cron_id <> 'long') NOT VALID"
            )
            try:
                fired = scheduling.fire_due()
            finally:
                cursor.execute("ALTER TABLE scheduling_scheduledfunction DROP CONSTRAINT x")
        assert [row.cron_id for row in fired] == ["whole"]
        reasons = dict(Cron.objects.filter(pause_reason__isnull=False).values_list("name", "pause_reason"))
        assert "ValueError" in str(reasons["unreadable"])
        assert "IntegrityError" in str(reasons["long"])
        scheduling.sync_crons()

    def test_by_a_name_that_is_no_topic_is_paused_too(self) -> None:
        for name in ("every*", "whole"):
            spoiled.due_cron(name)
        assert [row.cron_id for row in scheduling.fire_due()] == ["whole"]
        assert "A topic is a text" in (Cron.objects.get(name="every*").pause_reason or "")

    def test_by_a_moment_that_no_calendar_has_is_named_by_doctor_and_keeps_no_cluster_from_starting(self) -> None:
        for name in ("broken", "whole"):
            spoiled.due_cron(name)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE scheduling_cron SET next_at = '-infinity' WHERE name = 'broken'")
        assert [row.cron_id for row in scheduling.fire_due()] == ["whole"]
        [finding] = [each for each in scheduler_health.scheduler() if "could not be fired" in each.sentence]
        assert "broken: It could not be fired: This is not a schedule: its next firing" in finding.remedy
        scheduling.sync_crons()

    def test_ten_times_before_the_calendar_ends_has_a_page_all_the_same(self) -> None:
        spoiled.due_cron("far", next_at=datetime(9999, 12, 31, tzinfo=UTC), schedule="every 86400 s")
        assert spoiled.root().get("/crons/far/").status_code == 200

    def test_says_so_on_its_page_and_in_the_list(self) -> None:
        spoiled.due_cron("broken", schedule="every now and then")
        scheduling.fire_due()
        root = spoiled.root()
        for page in ("/crons/broken/", "/crons/"):
            assert "is no number of seconds" in root.get(page).content.decode(), page
        Cron.objects.update(schedule="every 60 s")
        scheduling.resume("broken")
        assert Cron.objects.values_list("paused_at", "pause_reason").get() == (None, None)

    def test_is_named_by_doctor_and_one_of_code_by_readiness_too(self) -> None:
        spoiled.due_cron("broken", schedule="every now and then")
        scheduling.fire_due()
        [finding] = [each for each in scheduler_health.scheduler() if "could not be fired" in each.sentence]
        assert "broken: It could not be fired: This is not a schedule" in finding.remedy
        assert "broken" not in finding.sentence, "strangers read it"
        Cron.objects.update(source="code")
        answer = health.check_readiness()[1]["scheduler"]
        assert "paused because they could not be fired: broken." in str(answer["messages"])


class TestACronWhoseFiringFailed:
    def test_is_named_by_doctor_with_why_until_a_later_firing_succeeds(self) -> None:
        for name in ("broken", "whole"):
            spoiled.due_cron(name, function=registry.dotted_name(sample.make_group), args={"name": name})
        Group.objects.create(name="broken")
        [broken, _] = sorted(scheduling.fire_due(), key=lambda row: row.cron_id or "")
        scheduling.run_due()
        [finding] = _of_failing()
        assert finding.sentence == "Crons whose last firing failed: 1 made or changed by people."
        assert f"broken (function #{broken.pk}): IntegrityError: duplicate key" in finding.remedy
        assert "whole" not in finding.remedy
        ScheduledFunction.objects.filter(pk=broken.pk).update(error=f"OSError: {'x' * 400}: the disk is full")
        assert "OSError: xxx" in _of_failing()[0].remedy
        assert "xxx: the disk is full" in _of_failing()[0].remedy, "an error says at its end what it was"
        Group.objects.all().delete()
        Cron.objects.filter(pk="broken").update(next_at=clock.now())
        scheduling.fire_due()
        scheduling.run_due()
        assert _of_failing() == []

    def test_is_named_for_good_where_each_firing_is_tried_again_in_vain(self) -> None:
        """The newest failure is of a firing that goes on, each minute another; one that was given up is below it."""
        spoiled.due_cron("broken", function=registry.dotted_name(sample.make_group), args={"name": "broken"})
        [first] = scheduling.fire_due()
        failed = {"function": first.function, "kind": first.kind, "args": {}, "status": "failed", "error": "x"}
        ended = {"ended_at": clock.now(), "cron_id": "broken"}
        given_up = ScheduledFunction.objects.create(**failed, **ended, attempt=2, fire_at=clock.now())
        tried_again = ScheduledFunction.objects.create(**failed, **ended, fire_at=clock.now())
        ScheduledFunction.objects.filter(pk=first.pk).update(retry_of_id=tried_again.pk)
        assert f"function #{given_up.pk}" in _of_failing()[0].remedy


def _of_failing() -> list[Finding]:
    return [each for each in scheduler_health.scheduler() if "last firing failed" in each.sentence]


class TestCronsThatAreOverdue:
    def test_are_named_by_doctor_and_those_of_code_by_readiness_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(crons, "_declared", {"judge things": None})
        minutes = clock.now() - timedelta(minutes=2)
        spoiled.due_cron("judge things")
        spoiled.due_cron("mine")
        Cron.objects.update(next_at=minutes)
        Cron.objects.filter(pk="judge things").update(source="code")
        cluster_id = uuid.uuid4()
        clusters.begin(cluster_id, role="mutations")
        report(cluster_id, Report(workers=1, free=1, waits=False))
        [finding] = [each for each in scheduler_health.scheduler() if "should have fired" in each.sentence]
        assert finding.sentence.endswith(": judge things, 1 made or changed by people.")
        assert "judge things, mine" in finding.remedy or "mine, judge things" in finding.remedy


@pytest.mark.parametrize("text", ["every 90000000 h", "every 43801 h", "every 999999999 min"])
def test_an_interval_that_leaves_the_calendar_is_refused_when_it_is_saved(text: str) -> None:
    with pytest.raises(BadSchedule, match="five years"):
        schedules.typed(text, tz="UTC")


@pytest.mark.parametrize(
    ("poison", "refusal"),
    [
        ({"function": "tests.scheduling.integration.sample.gone"}, UnknownFunction),
        ({"schedule": "x in Mars/Phobos"}, BadSchedule),
    ],
)
def test_a_cron_whose_function_or_zone_is_gone_is_removed_and_not_resumed(
    poison: dict[str, str], refusal: type[Exception]
) -> None:
    spoiled.due_cron("broken", paused_at=clock.now(), **poison)
    with pytest.raises(refusal):
        scheduling.resume("broken")
    answer = spoiled.root().post("/crons/broken/resume/", follow=True)
    assert (answer.status_code, len(answer.redirect_chain)) == (200, 1)
    assert refusal.__doc__.split("{")[0] in " ".join(map(str, answer.context["messages"]))  # type: ignore[union-attr]
    assert Cron.objects.get().paused_at is not None
    scheduling.remove("broken")
    assert Cron.objects.get().retired_at is not None


class TestAFunctionThatCannotBeRun:
    def test_since_no_cluster_serves_its_queue_has_that_named_by_doctor(self) -> None:
        scheduling.run_after(0, sample.say, queue="gone", word="hi")
        Due.objects.update(next_at=clock.now() - timedelta(minutes=1))
        [finding] = [each for each in scheduler_health.scheduler() if "that are late" in each.sentence]
        assert "queues: gone." in finding.remedy

    @pytest.mark.parametrize("function", [sample.say, sample.make_group])
    def test_by_its_arguments_fails_with_the_reason_and_the_others_run(self, function: Any) -> None:
        args = {"word": "hi"} if function is sample.say else {"name": "hi"}
        first, second = (scheduling.run_after(0, function, **args) for _ in range(2))
        spoiled.spoil("scheduling_scheduledfunction", "id", first.pk)
        scheduling.run_due()
        rows = ScheduledFunction.objects.defer("args")
        assert (rows.get(pk=first.pk).status, rows.get(pk=second.pk).status) == ("failed", "success")
        assert "ValueError: Exceeds the limit" in (rows.get(pk=first.pk).error or "")

    def test_by_its_arguments_has_a_page_and_is_canceled(self) -> None:
        row = scheduling.run_after(60, sample.say, word="hi")
        spoiled.spoil("scheduling_scheduledfunction", "id", row.pk)
        assert spoiled.UNREADABLE in spoiled.root().get(f"/functions/{row.pk}/").content.decode()
        assert scheduling.cancel(row.pk).status == "canceled"

    def test_at_its_moment_since_no_calendar_has_it_is_run(self) -> None:
        """Left there it counts as overdue, and its cluster as frozen."""
        for function, args in ((sample.say, {"word": "hi"}), (sample.make_group, {"name": "hi"})):
            scheduling.run_after(0, function, **args)
        Due.objects.update(next_at=RawSQL("timestamptz '-infinity'", []))
        assert scheduling.run_due() == 2
        assert not Due.objects.exists()

    def test_before_itself_as_its_row_says_has_ended_at_once(self) -> None:
        row = scheduling.run_after(0, sample.say, word="7")
        ScheduledFunction.objects.update(retry_of=row.pk, parent=row.pk)
        scheduling.run_due()
        with endings.time_limit(10, TimeoutError):
            assert scheduling.cancel(row).verdict == "too_late"
            [last] = statements.load("scheduling", "chain").run({"first": row.pk, "function": SAY})
        assert last.id == row.pk

    def test_by_its_backend_that_is_gone_fails_with_the_reason(self) -> None:
        row = scheduling.run_after(0, sample.say, word="hi")
        task = "tests.scheduling.integration.tasks.add"
        ScheduledFunction.objects.update(task_backend="gone", function=task, args={"args": [1, 2], "kwargs": {}})
        scheduling.run_due()
        row.refresh_from_db()
        assert (row.status, "gone" in (row.error or "")) == ("failed", True)

    @pytest.mark.parametrize("function", [sample.raise_unprintable, sample.raise_unprintable_mutation])
    def test_to_an_end_that_has_a_text_ends_all_the_same(self, function: Any) -> None:
        row = scheduling.run_after(0, function)
        scheduling.run_due()
        row.refresh_from_db()
        assert (row.status, row.error) == ("failed", "Unprintable: its text raises ZeroDivisionError")

    def test_again_after_its_cluster_died_is_unknown_and_the_others_are_retried(self) -> None:
        cluster_id = uuid.uuid4()
        clusters.begin(cluster_id, role="actions")
        rows = [scheduling.run_after(0, sample.die_once, path="") for _ in range(3)]
        ScheduledFunction.objects.update(
            status="in_progress", started_at=clock.now(), cluster_id=cluster_id, ran_by="a process"
        )
        spoiled.spoil("scheduling_scheduledfunction", "id", rows[0].pk)
        broken = "tests.scheduling.integration.breaks_when_imported.run"
        ScheduledFunction.objects.filter(pk=rows[1].pk).update(function=broken)
        clusters.end(cluster_id, ending="died")
        ended = ScheduledFunction.objects.filter(cluster_id=cluster_id).values_list("status", flat=True)
        assert list(ended) == ["unknown"] * 3
        assert ScheduledFunction.objects.get(attempt=2).retry_of_id == rows[2].pk
        assert f"Function #{rows[0].pk} cannot be tried again: BadArguments" in named_errors()

    def test_of_a_cron_whose_name_is_no_topic_ends_with_the_others_of_its_cluster(self) -> None:
        cluster_id = uuid.uuid4()
        clusters.begin(cluster_id, role="actions")
        for ends in (scheduling.run_due, partial(clusters.end, cluster_id, ending="died")):
            rows = [scheduling.run_after(0, sample.say, word="hi").pk for _ in range(2)]
            functions = ScheduledFunction.objects.filter(pk__in=rows)
            functions.filter(pk=rows[0]).update(cron="every*", fire_at=clock.now())
            if ends is not scheduling.run_due:
                started = {"started_at": clock.now(), "cluster_id": cluster_id, "ran_by": "a process"}
                functions.update(status="in_progress", **started)
            ends()
            assert not functions.filter(ended_at=None).exists(), ends

    def test_is_told_to_an_observer_that_raises_and_ends_all_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fired: list[str] = []

        def breaks(*_: object) -> None:
            raise RuntimeError("not today")

        monkeypatch.setattr(notifications, "_observers", [breaks, lambda cron, *_: fired.append(cron)])
        spoiled.due_cron("broken", function="tests.scheduling.integration.sample.gone")
        [row] = scheduling.fire_due()
        Due.objects.update(run_at=clock.now() - timedelta(hours=2))
        scheduling.run_due()
        row.refresh_from_db()
        assert (row.status, fired) == ("failed", ["broken"])
