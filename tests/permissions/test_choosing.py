"""Who may give which priority, and choose another queue than the kind's own: by the API, bulk actions and a retry."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import Client, override_settings
from django.urls import reverse

from accounts import operations as accounts
from jobs import operations
from jobs.domain.bulks import BulkAction, Phase
from jobs.domain.filters import Filters
from jobs.errors import PriorityNotAllowed, QueueChoiceNotAllowed
from jobs.models import Bulk, Job, Kind
from tests import farm

pytestmark = pytest.mark.django_db
WHO = ("member", "raiser", "chooser", "staff", "operator", "root")


@pytest.fixture
def people() -> dict[str, User]:
    """By the rights that they have; the kind `work` with the priority 3, and the queues work, fast and slow."""
    farm.kind(priority=3)
    farm.kind("fast")
    farm.kind("slow")
    found = {name: farm.user(name, is_staff=name in {"staff", "operator"}) for name in WHO[:-1]}
    rights = {"raiser": ["raise_priority"], "chooser": ["choose_queue"], "operator": ["operate_job", "view_job"]}
    for name, codenames in rights.items():
        found[name].user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return {**found, "root": User.objects.create_superuser("root")}


@contextmanager
def _members(**allowed: Any) -> Iterator[None]:
    """Settings that allow members more."""
    with override_settings(JOBFARM={**settings.JOBFARM, **allowed}):
        yield


def _submit(user: User, path: str = "jobs", **options: Any) -> Any:
    _, token = accounts.create_token(user, name="tests")
    program = Client(headers={"Authorization": f"Bearer {token}"})
    job = {"kind": "work", "payload": {}, **options}
    return program.post(f"/api/v1/{path}", {"jobs": [job]} if path == "jobs/bulk" else job, "application/json")


# What is asked for, and the status that each of WHO is answered.
CALLS = """
{}                                     201 201 201 201 201 201
{"priority": 3}                        201 201 201 201 201 201
{"priority": -100}                     201 201 201 201 201 201
{"priority": 4}                        403 201 403 403 201 201
{"priority": 100}                      403 201 403 403 201 201
{"queue": "work"}                      201 201 201 201 201 201
{"queue": "fast"}                      403 403 201 403 201 201
{"queue": "fast", "priority": 4}       403 403 403 403 201 201
{"kind": "fast", "priority": 1}        403 201 403 403 201 201
{"kind": "fast", "priority": 0}        201 201 201 201 201 201
{"queue": "none-such"}                 422 422 422 422 422 422
"""


class TestSubmitting:
    @pytest.mark.parametrize("path", ["jobs", "jobs/bulk"])
    def test_is_answered_as_the_table_says(self, people: dict[str, User], path: str) -> None:
        expected, found = {}, {}
        for line in CALLS.strip().splitlines():
            options, _, statuses = line.partition("} ")
            expected[options] = dict(zip(WHO, statuses.split(), strict=True))
            choice = json.loads(options + "}")
            found[options] = {who: str(_submit(people[who], path, **choice).status_code) for who in WHO}
        assert found == expected

    def test_is_refused_in_a_sentence_that_names_the_right_and_the_bound(self, people: dict[str, User]) -> None:
        assert _submit(people["member"], priority=9).json() == {
            "error": "forbidden", "right": "jobs.raise_priority", "priority": 9, "highest": 3,
            "what": "a job of the kind work",
            "message": "The priority 9 requires the permission jobs.raise_priority: "
            "without it, a job of the kind work may have 3 at most.",
        }  # fmt: skip
        with _members(MEMBER_QUEUES=("slow",)):
            assert _submit(people["member"], queue="fast").json() == {
                "error": "forbidden", "right": "jobs.choose_queue", "queue": "fast", "allowed": "work, slow",
                "what": "a job of the kind work",
                "message": "The queue fast requires the permission jobs.choose_queue: "
                "without it, a job of the kind work goes into work, slow.",
            }  # fmt: skip
        assert not Job.objects.exists()

    def test_of_a_bulk_is_refused_as_a_whole(self, people: dict[str, User]) -> None:
        _, token = accounts.create_token(people["member"], name="tests")
        jobs = [{"kind": "work", "payload": {}}, {"kind": "work", "payload": {}, "priority": 9}]
        program = Client(headers={"Authorization": f"Bearer {token}"})
        assert program.post("/api/v1/jobs/bulk", {"jobs": jobs}, "application/json").status_code == 403
        assert not Job.objects.exists()

    def test_is_bounded_by_the_settings(self, people: dict[str, User]) -> None:
        with _members(MEMBER_PRIORITY=10, MEMBER_QUEUES=("slow",)):
            options: list[dict[str, Any]] = [{"priority": 10}, {"priority": 11}, {"queue": "slow"}, {"queue": "fast"}]
            assert [_submit(people["member"], **each).status_code for each in options] == [201, 403, 201, 403]
        with _members(MEMBER_QUEUES=("*",)):
            assert _submit(people["member"], queue="fast").status_code == 201

    def test_by_code_of_the_site_is_not_bounded(self, people: dict[str, User]) -> None:
        made = operations.submit("work", {}, owner=people["member"], queue="fast", priority=100)
        assert (made.queue, made.priority) == ("fast", 100)

    def test_by_the_form_has_no_choice_and_takes_what_the_kind_says(self, people: dict[str, User]) -> None:
        browser = Client()
        browser.force_login(people["member"])
        form = {"kind_name": "work", "payload_text": "{}", "queue": "fast"}
        assert browser.post("/jobs/new/?kind=other", form | {"priority": "100"}).status_code == 422
        assert not Job.objects.exists()
        assert browser.post("/jobs/new/?kind=other", form).status_code == 302
        assert Job.objects.values_list("queue", "priority").get() == ("work", 3)


def _ended(owner: User, **options: Any) -> Job:
    job = operations.submit("work", {}, owner=owner, **options)
    operations.cancel(job.pk, by=None)
    return job


class TestRetrying:
    @pytest.mark.parametrize(
        ("options", "refusal"),
        [({"priority": 4}, PriorityNotAllowed), ({"queue": "fast"}, QueueChoiceNotAllowed)],
        ids=["priority", "queue"],
    )
    def test_what_somebody_else_raised_or_moved_takes_the_right(
        self, people: dict[str, User], options: dict[str, Any], refusal: type[Exception]
    ) -> None:
        """It keeps both, and may be repeated."""
        job = _ended(people["member"], **options)
        with pytest.raises(refusal):
            operations.retry(job.pk, by=people["member"])
        again = [operations.retry(job.pk, by=by) for by in (people["operator"], None)]
        assert {(made.queue, made.priority) for made in again} == {(job.queue, job.priority)}

    def test_what_one_could_submit_takes_none(self, people: dict[str, User]) -> None:
        assert operations.retry(_ended(people["member"]).pk, by=people["member"]).priority == 3

    def test_is_told_on_the_page(self, people: dict[str, User]) -> None:
        job = _ended(people["member"], priority=50)
        browser = Client()
        browser.force_login(people["member"])
        page = browser.post(reverse("jobs:retry", args=[job.pk]), follow=True).content.decode()
        assert "The priority 50 requires the permission jobs.raise_priority" in page
        assert Job.objects.count() == 1


def _to_the_end(made: Bulk) -> Bulk:
    made.refresh_from_db()
    while made.phase not in {Phase.DONE, Phase.STOPPED}:
        operations.bulk.step(bulk_id=made.pk)
        made.refresh_from_db()
    return made


def _done(action: BulkAction, by: User, value: str = "", **filters: str) -> Bulk:
    options = operations.bulk.create(action, by=by, filters=Filters(**filters), value=value)
    return _to_the_end(operations.bulk.begin(options.pk, by=by))


class TestBulkActions:
    @pytest.mark.parametrize(
        ("action", "value", "filters", "may"),
        [
            (BulkAction.PRIORITY, "0", {}, {*WHO}),
            (BulkAction.PRIORITY, "1", {}, {"raiser", "operator", "root"}),
            (BulkAction.PRIORITY, "3", {"kind": "work"}, {*WHO}),
            (BulkAction.PRIORITY, "4", {"kind": "work"}, {"raiser", "operator", "root"}),
            (BulkAction.QUEUE, "work", {"kind": "work"}, {*WHO}),
            (BulkAction.QUEUE, "work", {}, {"chooser", "operator", "root"}),
            (BulkAction.QUEUE, "fast", {"kind": "work"}, {"chooser", "operator", "root"}),
        ],
        ids=lambda part: " ".join(sorted(part)) if isinstance(part, set) else str(part),
    )
    def test_are_for_who_has_the_right(
        self, people: dict[str, User], action: BulkAction, value: str, filters: dict[str, str], may: set[str]
    ) -> None:
        refused = set()
        for who in WHO:
            try:
                operations.bulk.create(action, by=people[who], filters=Filters(**filters), value=value)
            except (PriorityNotAllowed, QueueChoiceNotAllowed):
                refused.add(who)
        assert refused == {*WHO} - may

    def test_on_jobs_of_a_kind_that_is_gone_are_for_who_has_the_right(self, people: dict[str, User]) -> None:
        [job] = farm.submit(1, owner=people["member"])
        Kind.objects.get(name="work").delete()
        with pytest.raises(QueueChoiceNotAllowed):
            _done(BulkAction.QUEUE, people["member"], "fast", kind="work")
        assert _done(BulkAction.QUEUE, people["operator"], "fast", kind="work").changed == 1
        assert Job.objects.get(pk=job.pk).queue == "fast"

    def test_stop_when_the_right_is_taken_away(self, people: dict[str, User]) -> None:
        raiser = people["raiser"]
        farm.submit(1, owner=raiser)
        options = operations.bulk.create(BulkAction.PRIORITY, by=raiser, filters=Filters(), value="50")
        operations.bulk.begin(options.pk, by=raiser)
        raiser.user_permissions.clear()
        stopped = _to_the_end(options)
        assert (stopped.phase, stopped.changed) == (Phase.STOPPED, 0)
        assert stopped.why.startswith("The priority 50 requires the permission jobs.raise_priority")
        assert Job.objects.get().priority == 3

    def test_that_try_again_leave_out_what_takes_a_right(self, people: dict[str, User]) -> None:
        plain, raised = _ended(people["member"]), _ended(people["member"], priority=50)
        done = _done(BulkAction.RETRY, people["member"])
        assert (done.changed, done.handled) == (1, 2)
        assert [line for line in done.results if "jobs.raise_priority" in line]
        assert set(Job.objects.filter(retry_of__isnull=False).values_list("retry_of", flat=True)) == {plain.pk}
        assert _done(BulkAction.RETRY, people["operator"], status="canceled").changed == 1
        assert Job.objects.filter(retry_of=raised.pk).count() == 1

    def test_are_taken_back_whoever_raised_it(self, people: dict[str, User]) -> None:
        """What was there before comes back, and nothing more."""
        job = operations.submit("work", {}, owner=people["member"], priority=50)
        lowered = _done(BulkAction.PRIORITY, people["member"], "-5")
        assert Job.objects.get(pk=job.pk).priority == -5
        _to_the_end(operations.bulk.undo(lowered.pk, by=people["member"]))
        assert Job.objects.get(pk=job.pk).priority == 50

    def test_tell_the_refusal_on_the_page(self, people: dict[str, User]) -> None:
        browser = Client()
        browser.force_login(people["member"])
        form = {"action": "change_priority", "new_priority": "50"}
        page = browser.post("/jobs/bulk/", form, follow=True).content.decode()
        assert "The priority 50 requires the permission jobs.raise_priority" in page
        assert not Bulk.objects.exists()
