"""Crons that people make, and crons of code that they change."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from jobs import operations as jobs
from jobs.errors import JobsError
from jobs.models import Job
from jobs.operations import from_crons
from postgres import clock
from scheduling import operations as scheduling, registry
from scheduling.domain import schedules
from scheduling.domain.schedules import Missed, Overlap, Policy
from scheduling.errors import BadArguments, BadSchedule, CronExists, NotEditable, NotFound, UnknownFunction
from scheduling.models import Cron
from scheduling.operations import crons
from tests import farm
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)
SAY = registry.dotted_name(sample.say)
SUBMIT = registry.dotted_name(from_crons.submit_job)
NOON = schedules.daily(hour=12, tz="Europe/Berlin")
PLAIN = Policy()


@pytest.fixture(autouse=True)
def own_crons(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests declare crons of their own."""
    monkeypatch.setattr(crons, "_declared", {})
    Cron.objects.all().delete()


@pytest.fixture
def declared() -> Cron:
    """One that code declares."""
    scheduling.declare("greet", scheduling.hourly(), sample.say, word="hi")
    scheduling.sync_crons()
    return Cron.objects.get(pk="greet")


def _row(name: str = "greet") -> Cron:
    return Cron.objects.get(pk=name)


class TestAPersonsCron:
    def test_fires_as_those_of_code_do(self) -> None:
        made = scheduling.make(
            "mine", function=SAY, schedule=schedules.interval(minutes=5), args={"word": "ho"}, policy=PLAIN
        )
        assert (made.source, made.schedule, made.args) == ("person", "every 300 s", {"word": "ho"})
        [fired] = scheduling.fire_due()
        assert (fired.function, fired.args, fired.cron_id) == (SAY, {"word": "ho"}, "mine")

    def test_is_not_touched_when_code_is_synced(self) -> None:
        scheduling.make("mine", function=SAY, schedule=NOON, args={"word": "ho"}, policy=PLAIN)
        before = _row("mine").__dict__ | {"_state": None}
        scheduling.sync_crons()
        assert _row("mine").__dict__ | {"_state": None} == before

    def test_gives_way_to_code_that_declares_its_name(self) -> None:
        scheduling.make("greet", function=SAY, schedule=NOON, args={"word": "ho"}, policy=PLAIN)
        scheduling.declare("greet", scheduling.hourly(), sample.say, word="hi")
        scheduling.sync_crons()
        assert (_row().source, _row().args, _row().schedule) == ("code", {"word": "hi"}, "0 * * * * in UTC")

    def test_of_a_name_that_another_person_takes_at_the_same_moment_is_refused(self) -> None:
        def make(word: str) -> Cron:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '20s'")
                return scheduling.make("mine", function=SAY, schedule=NOON, args={"word": word}, policy=PLAIN)

        with pytest.raises(CronExists):
            farm.meanwhile(partial(make, "first"), partial(make, "second"))
        assert _row("mine").args == {"word": "first"}

    def test_is_removed_and_may_be_made_again(self) -> None:
        plan: dict[str, Any] = {"function": SAY, "schedule": NOON, "args": {"word": "ho"}, "policy": PLAIN}
        scheduling.make("mine", **plan)
        with pytest.raises(CronExists):
            scheduling.make("mine", **plan)
        scheduling.remove("mine")
        assert (_row("mine").retired_at is not None, scheduling.fire_due()) == (True, [])
        assert scheduling.make("mine", **plan).retired_at is None

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            ({"name": "a/b"}, BadSchedule),
            ({"function": "os.system"}, UnknownFunction),
            ({"args": {"word": 1, "loud": 2}}, BadArguments),
        ],
    )
    def test_is_refused_with_the_reason(self, change: dict[str, object], error: type[Exception]) -> None:
        plan = {"name": "mine", "function": SAY, "schedule": NOON, "args": {"word": "x"}, "policy": PLAIN} | change
        with pytest.raises(error):
            scheduling.make(plan.pop("name"), **plan)  # type: ignore[arg-type]
        assert not Cron.objects.exists()

    def test_may_not_be_of_a_function_that_only_the_farm_calls(self) -> None:
        offered = {each.name for each in registry.for_people()}
        assert {SAY, SUBMIT} <= offered
        assert "jobs.operations.janitor.retain" not in offered


class TestACronOfCodeThatWasChanged:
    def test_keeps_what_a_person_said(self, declared: Cron) -> None:
        policy = Policy(missed=Missed.SKIP, overlap=Overlap.ALLOW)
        row = scheduling.edit("greet", schedule=NOON, args={"word": "ho"}, policy=policy)
        assert (row.source, row.schedule, row.args) == ("edited", "0 12 * * * in Europe/Berlin", {"word": "ho"})
        assert (row.missed, row.overlap) == ("skip", "allow")
        assert row.next_at == NOON.after(clock.now())
        scheduling.sync_crons()
        assert (_row().source, _row().args, _row().next_at) == ("edited", {"word": "ho"}, row.next_at)

    def test_keeps_its_fire_time_where_the_schedule_stays(self, declared: Cron) -> None:
        soon = clock.now() + timedelta(seconds=90)
        Cron.objects.update(next_at=soon)
        scheduling.edit("greet", schedule=scheduling.hourly(), args={"word": "ho"}, policy=PLAIN)
        assert _row().next_at == soon

    def test_follows_code_again_when_that_is_asked_for(self, declared: Cron) -> None:
        scheduling.edit("greet", schedule=NOON, args={"word": "ho"}, policy=PLAIN)
        row = scheduling.follow_code("greet")
        assert (row.source, row.schedule, row.args) == ("code", declared.schedule, {"word": "hi"})

    def test_follows_code_that_names_another_function(self, declared: Cron, monkeypatch: pytest.MonkeyPatch) -> None:
        scheduling.edit("greet", schedule=NOON, args={"word": "ho"}, policy=PLAIN)
        monkeypatch.setattr(crons, "_declared", {})
        scheduling.declare("greet", scheduling.hourly(), sample.make_group, name="hi")
        scheduling.sync_crons()
        assert (_row().source, _row().args) == ("code", {"name": "hi"})

    def test_is_retired_with_its_declaration(self, declared: Cron, monkeypatch: pytest.MonkeyPatch) -> None:
        scheduling.edit("greet", schedule=NOON, args={"word": "ho"}, policy=PLAIN)
        monkeypatch.setattr(crons, "_declared", {})
        scheduling.sync_crons()
        assert _row().retired_at is not None

    def test_of_the_farm_itself_is_refused(self) -> None:
        scheduling.declare("count", scheduling.hourly(), "jobs.operations.rollup.roll_up")
        scheduling.sync_crons()
        with pytest.raises(NotEditable):
            scheduling.edit("count", schedule=NOON, args={}, policy=PLAIN)
        with pytest.raises(NotFound):
            scheduling.remove("count")
        assert _row("count").source == "code"


class TestACronOfJobs:
    def _make(self, **args: object) -> Cron:
        schedule = schedules.interval(seconds=30)
        return scheduling.make("paint", function=SUBMIT, schedule=schedule, args=args, policy=PLAIN)

    def test_submits_one_at_each_firing(self) -> None:
        farm.kind()
        self._make(kind="work", payload={"prompt": "hi"}, job_priority=3)
        scheduling.fire_due()
        assert scheduling.run_due() == 1
        job = Job.objects.get()
        assert (job.kind, job.priority, job.owner, job.payload) == ("work", 3, None, {"prompt": "hi"})

    def test_submits_jobs_for_the_machines_that_it_names(self) -> None:
        farm.kind()
        self._make(kind="work", payload={}, requires={"vram": ">=16"}, prefers={"region": "home"})
        scheduling.fire_due()
        assert scheduling.run_due() == 1
        requirement = Job.objects.get().requirement
        assert requirement is not None
        assert (requirement.requires, requirement.prefers) == ({"vram": ">=16"}, {"region": "home"})

    def test_skips_a_firing_while_the_job_of_an_earlier_one_lives(self) -> None:
        farm.kind()
        self._make(kind="work", payload={})
        for _ in range(3):
            Cron.objects.update(next_at=clock.now())
            scheduling.fire_due()
            scheduling.run_due()
        assert (Job.objects.count(), _row("paint").skipped_count) == (1, 2)
        jobs.cancel(Job.objects.get().pk, by=None)
        Cron.objects.update(next_at=clock.now())
        assert len(scheduling.fire_due()) == 1

    def test_submits_one_at_each_firing_where_overlap_is_allowed(self) -> None:
        farm.kind()
        self._make(kind="work", payload={})
        Cron.objects.update(overlap="allow")
        for _ in range(2):
            Cron.objects.update(next_at=clock.now())
            scheduling.fire_due()
            scheduling.run_due()
        assert Job.objects.count() == 2

    def test_submits_one_that_waits_behind_the_last_where_it_says_so(self) -> None:
        farm.kind()
        self._make(kind="work", payload={}, unique_key="cron paint", on_conflict="after")
        Cron.objects.update(overlap="allow")
        for _ in range(3):
            Cron.objects.update(next_at=clock.now())
            scheduling.fire_due()
            assert scheduling.run_due() == 1
            if Job.objects.count() == 1:
                farm.claim_one(farm.worker())
        assert [job.is_behind for job in Job.objects.order_by("pk")] == [False, True]

    def test_submits_none_while_the_last_one_lives(self) -> None:
        farm.kind()
        self._make(kind="work", payload={}, unique_key="cron paint")
        Cron.objects.update(overlap="allow")
        for _ in range(2):
            Cron.objects.update(next_at=clock.now())
            scheduling.fire_due()
            assert scheduling.run_due() == 1
        assert Job.objects.count() == 1

    @pytest.mark.parametrize(
        "args",
        [
            {"kind": "none", "payload": {}},
            {"kind": 7, "payload": {}},
            {"kind": "work", "payload": {}, "job_queue": "none"},
            {"kind": "work", "payload": {}, "job_priority": 101},
            {"kind": "work", "payload": "x" * 2_000_000},
            {"kind": "work", "payload": {}, "requires": ["vram"]},
            {"kind": "work", "payload": {}, "requires": {"vram": ">=much"}},
            {"kind": "work", "payload": {}, "prefers": {"": "home"}},
        ],
    )
    def test_is_refused_where_its_jobs_would_be(self, args: dict[str, object]) -> None:
        farm.kind()
        with pytest.raises(JobsError), transaction.atomic():
            self._make(**args)
        assert not Cron.objects.exists()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("every 30 s", "every 30 s"),
        ("every 5 min", "every 300 s"),
        (" every  2h ", "every 2h, as typed"),
        ("0 6 * * 1-5", "0 6 * * 1-5 in Asia/Tokyo"),
    ],
)
def test_a_schedule_is_typed_as_people_write_it(text: str, kept: str) -> None:
    assert schedules.typed(text, tz="Asia/Tokyo").text() == kept


@pytest.mark.parametrize("text", ["", "every 0 s", "every day", "* * * *", "every 1 s 2", "61 * * * *"])
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(BadSchedule):
        schedules.typed(text, tz="UTC")
