"""Jobs that a job submits for itself, and attempts that end suspended until those have ended."""

from typing import Any

import pytest
from django.contrib.auth.models import Group

from accounts import operations as accounts
from jobs import operations
from jobs.domain.states import Status
from jobs.errors import ChildDiffers, LeaseLost, NotAChild, PriorityNotAllowed, QueueChoiceNotAllowed, WaitsBehind
from jobs.models import Attempt, Edge, EndedStep, Job, Live, Step, Suspension, Worker
from jobs.operations import edges
from jobs.protocol import answers, jobs as protocol, verbs
from jobs.queries import flows, reads
from observing import traces
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    return farm.worker()


def parent_of(worker: Worker, **options: Any) -> operations.ClaimedJob:
    """A new job that the worker holds."""
    operations.submit("work", {}, **options)
    return farm.claim_one(worker)


def child_of(worker: Worker, parent: operations.ClaimedJob, position: int, payload: Any = None, **options: Any) -> int:
    """The child of this job at that position."""
    new = operations.NewJob(kind="work", payload=position if payload is None else payload)
    return operations.submit_child(worker, parent.id, parent.lease, new, position=position, **options)


def suspend(worker: Worker, job: operations.ClaimedJob, *children: int) -> Any:
    """Hand it in as suspended; its new status, or LeaseLost as a value."""
    wait = operations.Wait(children=children)
    return operations.finish(
        worker, [operations.Finished(job_id=job.id, lease=job.lease, outcome="suspended", wait=wait)]
    )[0]


def claimed(worker: Worker) -> dict[int, operations.ClaimedJob]:
    return {one.id: one for one in operations.claim(worker, limit=100)}


def test_a_suspended_job_holds_nothing_and_goes_on_with_results_and_checkpoint_once_all_have_ended(
    worker: Worker,
) -> None:
    operations.set_ceiling("work", 2, by=None)
    parent = parent_of(worker)
    children = [child_of(worker, parent, position) for position in range(2)]
    operations.checkpoint(worker, parent.id, parent.lease, {"stage": "join"}, children=2)
    assert suspend(worker, parent, *children) == Status.PENDING
    live = Live.objects.get(pk=parent.id)
    assert (live.lease_secret, live.counted_in, live.failures, live.releases) == (None, None, 0, 0)
    assert Attempt.objects.values_list("job_id", "outcome", "attempt").get() == (parent.id, "suspended", None)
    [reason] = [one for one in reads.why_not_running(parent.id) if one.code == "waits_after"]
    assert reason.sentence == f"It comes after jobs {children[0]} and {children[1]} in its flow, which have not ended."
    with pytest.raises(WaitsBehind):
        operations.run_now(parent.id, by=None)
    assert operations.broken_jobs(most=9) == []
    jobs = claimed(worker)
    assert jobs.keys() == {*children}, "the ceiling has room for both"
    farm.succeed(worker, jobs[children[0]], {"n": 1})
    assert claimed(worker) == {}
    farm.fail(worker, jobs[children[1]], retryable=False)
    other = farm.worker("other")
    again = farm.claim_one(other)
    assert (again.id, again.attempt, again.fence) == (parent.id, 1, 2)
    assert (again.checkpoint, again.children) == ({"stage": "join"}, 2)
    assert [(one.id, one.status, one.result) for one in again.after or ()] == [
        (children[0], "success", {"n": 1}),
        (children[1], "failed", None),
    ]
    assert farm.succeed(other, again) == Status.SUCCESS
    operations.tend_lanes()
    assert not EndedStep.objects.exists()


def test_it_may_wait_again_and_again_for_more_and_for_what_it_has_waited_for(worker: Worker) -> None:
    job = parent_of(worker)
    ids: list[int] = []
    for n in range(3):
        ids.append(child_of(worker, job, n))
        suspend(worker, job, *ids)
        farm.succeed(worker, farm.claim_one(worker), n)
        job = farm.claim_one(worker)
        assert [(one.id, one.result) for one in job.after or ()] == [(child, place) for place, child in enumerate(ids)]
    assert suspend(worker, job) == Status.PENDING, "for nothing: it is due at once"
    assert farm.claim_one(worker).fence == 5


def test_those_that_had_ended_before_are_not_waited_for(worker: Worker) -> None:
    parent = parent_of(worker)
    children = [child_of(worker, parent, n) for n in range(3)]
    jobs = claimed(worker)
    for child in children[:2]:
        farm.succeed(worker, jobs[child])
    suspend(worker, parent, *children)
    assert claimed(worker) == {}
    farm.succeed(worker, jobs[children[2]])
    again = farm.claim_one(worker)
    suspend(worker, again, *children)
    assert farm.claim_one(worker).id == parent.id


def test_a_later_attempt_submits_nothing_where_an_earlier_one_has(worker: Worker) -> None:
    parent = parent_of(worker)
    first = child_of(worker, parent, 0, {"n": 1.5, "of": ["ä"]})
    assert child_of(worker, parent, 0, {"of": ["ä"], "n": 1.5}) == first
    farm.lose(parent)
    with pytest.raises(LeaseLost):
        child_of(worker, parent, 1)
    jobs = claimed(farm.worker("other"))
    again = jobs[parent.id]
    other = Worker.objects.get(name="other")
    assert child_of(other, again, 0, {"of": ["ä"], "n": 1.5}) == first
    with pytest.raises(ChildDiffers, match=f"At position 0 this job has submitted job {first},"):
        child_of(other, again, 0, {"n": 2})
    assert Job.objects.count() == 2


def test_a_child_has_the_owner_group_token_trace_and_flow_of_its_parent() -> None:
    farm.kind()
    group = Group.objects.create(name="lab")
    ada = farm.user("ada", groups=[group])
    token, _ = accounts.create_token(ada, name="t", scopes=["submit"])
    worker = farm.worker()
    with traces.carrying(f"00-{7:032x}-{8:016x}-01"):
        parent = operations.submit("work", {}, owner=ada, group=group, token_id=token.pk)
    child = Job.objects.get(pk=child_of(worker, farm.claim_one(worker), 0))
    parent = Job.objects.get(pk=parent.pk)
    inherited = ("owner_id", "group_id", "token_id", "traceparent", "flow_id")
    assert [getattr(child, name) for name in inherited] == [getattr(parent, name) for name in inherited]
    assert (child.owner, child.group, child.token_id) == (ada, group, token.pk)
    assert None not in (child.flow_id, child.traceparent)


def test_a_child_has_the_rights_of_its_owner(worker: Worker) -> None:
    farm.kind("other")
    ada = farm.user("ada")
    parent = parent_of(worker, owner=ada)
    for options in ({"priority": 50}, {"queue": "other"}):
        new = operations.NewJob(kind="work", payload={}, **options)  # type: ignore[typeddict-item]
        with pytest.raises((PriorityNotAllowed, QueueChoiceNotAllowed)):
            operations.submit_child(worker, parent.id, parent.lease, new, position=0)


def test_cancel_of_the_parent_cancels_its_children_and_theirs_but_for_those_that_outlive_it(worker: Worker) -> None:
    parent = parent_of(worker)
    children = [child_of(worker, parent, 0), child_of(worker, parent, 1), child_of(worker, parent, 2, outlives=True)]
    jobs = claimed(worker)
    grandchild = child_of(worker, jobs[children[0]], 0)
    farm.succeed(worker, jobs[children[1]])
    suspend(worker, parent, *children)
    assert operations.cancel(parent.id, by=None).verdict == "canceled_while_suspended"
    assert farm.statuses([parent.id, *children, grandchild]) == [
        "canceled", "canceled", "success", "in_progress", "canceled",
    ]  # fmt: skip
    assert isinstance(farm.succeed(worker, jobs[children[0]]), LeaseLost)
    farm.succeed(worker, jobs[children[2]])
    assert claimed(worker) == {}


def test_a_child_that_was_canceled_with_its_parent_says_so(worker: Worker) -> None:
    parent = parent_of(worker)
    waiting, running = child_of(worker, parent, 0), child_of(worker, parent, 1)
    job = claimed(worker)[running]
    theirs = child_of(worker, job, 0)
    operations.cancel(waiting, by=None)
    waiting = child_of(worker, parent, 2)
    operations.cancel(parent.id, by=farm.user("ada", is_staff=True, is_superuser=True))
    for child, by in ((waiting, parent.id), (running, parent.id), (theirs, running)):
        sentence = f"It was canceled with job {by}, which submitted it."
        assert [one.sentence for one in reads.why_not_running(child)] == [sentence]
        assert protocol.in_full([child])[0].canceled_for == by
    [shown] = protocol.in_full([running])
    assert shown.error == f"canceled by ada: with job {parent.id}, which submitted it"
    assert set(Step.objects.exclude(canceled_for=None).values_list("pk", flat=True)) == {waiting, running, theirs}


def test_what_came_after_a_child_was_canceled_for_the_childs_sake(worker: Worker) -> None:
    """A retry of the parent submits children of its own: what came after an old one is not for those."""
    parent = parent_of(worker)
    child = child_of(worker, parent, 0)
    later = operations.submit("work", {}, after=[child]).pk
    operations.cancel(parent.id, by=None)
    assert Step.objects.get(pk=later).canceled_for_id == child
    operations.retry(parent.id, by=None)
    assert not Job.objects.filter(retry_of__in=[child, later]).exists()
    operations.retry(child, by=None)
    assert Job.objects.filter(retry_of__in=[child, later]).count() == 2


def test_what_failed_is_tried_again_without_the_children_that_were_canceled_with_it(worker: Worker) -> None:
    parent = parent_of(worker)
    child = child_of(worker, parent, 0)
    operations.cancel(parent.id, by=None)
    [again] = operations.flows.retry(Job.objects.get(pk=child).flow_id or 0, by=None)
    assert Job.objects.get(pk=again).retry_of_id == parent.id


def test_only_its_own_are_waited_for(worker: Worker) -> None:
    parent = parent_of(worker)
    child, stranger = child_of(worker, parent, 0), operations.submit("work", {}).pk
    assert isinstance(suspend(worker, parent, child, stranger), NotAChild)
    assert farm.status(parent) == "in_progress"
    assert not Edge.objects.exists()
    assert suspend(worker, parent, child) == Status.PENDING


def test_of_several_that_are_handed_in_the_one_that_waits_for_a_stranger_is_refused_alone(worker: Worker) -> None:
    parent, other = parent_of(worker), parent_of(worker)
    child, stranger = child_of(worker, parent, 0), operations.submit("work", {}).pk
    waits = {"children": [child, stranger], "timeout": 60}
    entries: list[Any] = [
        {"id": parent.id, "lease": str(parent.lease), "outcome": "suspended", "wait": waits},
        {"id": other.id, "lease": str(other.lease), "outcome": "success", "result": 1},
    ]
    body = verbs.FinishMany(finished=entries, claim_next=1, request_id=None)
    answer = verbs.finish_many(worker, body)
    refused, taken = answer.finished
    assert isinstance(refused, answers.LostOne)
    assert (refused.id, refused.error) == (parent.id, "not_a_child")
    assert taken == answers.EndedOne(id=other.id, status=Status.SUCCESS)
    assert (farm.status(parent), len(answer.jobs)) == ("in_progress", 1)
    assert not Edge.objects.exists()
    assert not Suspension.objects.exists()
    again = verbs.finish_many(worker, body)
    assert again.model_dump()["finished"] == answer.model_dump()["finished"]
    assert [one.id for one in again.jobs] == [one.id for one in answer.jobs], "the next jobs came once"
    assert suspend(worker, parent, child) == Status.PENDING


def test_one_that_is_refused_and_named_twice_is_refused_twice_and_not_said_to_be_lost(worker: Worker) -> None:
    parent, stranger = parent_of(worker), operations.submit("work", {}).pk
    wait = operations.Wait(children=(stranger,))
    one = operations.Finished(job_id=parent.id, lease=parent.lease, outcome="suspended", wait=wait)
    assert [type(answer) for answer in operations.finish(worker, [one, one])] == [NotAChild, NotAChild]
    assert farm.succeed(worker, parent) == Status.SUCCESS


def test_a_hand_in_whose_answer_was_lost_is_answered_the_same_and_one_without_the_lease_is_refused(
    worker: Worker,
) -> None:
    parent = parent_of(worker)
    child = child_of(worker, parent, 0)
    assert [suspend(worker, parent, child) for _ in range(2)] == [Status.PENDING] * 2
    farm.succeed(worker, farm.claim_one(worker))
    again = farm.claim_one(worker)
    assert suspend(worker, parent, child) == Status.PENDING
    assert farm.status(parent) == "in_progress", "the repeat has not changed the later attempt"
    farm.succeed(worker, again)
    assert suspend(worker, parent, child) == Status.PENDING
    assert suspend(worker, again) == Status.SUCCESS, "as the first time, whatever comes now"


def test_what_a_crash_left_the_janitor_releases(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = parent_of(worker)
    child = child_of(worker, parent, 0)
    farm.succeed(worker, farm.claim_one(worker))
    with monkeypatch.context() as crash:
        crash.setattr(edges, "look_after", lambda ids: None)
        suspend(worker, parent, child)
    assert claimed(worker) == {}
    operations.tend_lanes()
    assert claimed(worker).keys() == {parent.id}


def test_the_flow_shows_children_before_who_waits_for_them(worker: Worker) -> None:
    parent = parent_of(worker)
    later = operations.submit("work", {}, after=[parent.id]).pk
    child = child_of(worker, parent, 0)
    suspend(worker, parent, child)
    flow_id = Job.objects.get(pk=parent.id).flow_id
    assert flow_id is not None
    seen = flows.seen(flow_id, viewer=0)
    assert [row.id for row in seen.places] == [child, parent.id, later]
    assert [seen.depths[row.id] for row in seen.places] == [0, 1, 2]


def test_a_retry_by_hand_goes_on_from_the_checkpoint_with_the_results(worker: Worker) -> None:
    parent = parent_of(worker)
    child = child_of(worker, parent, 0)
    operations.checkpoint(worker, parent.id, parent.lease, "half", children=1)
    suspend(worker, parent, child)
    farm.fail(worker, farm.claim_one(worker), retryable=False)
    farm.fail(worker, farm.claim_one(worker), retryable=False)
    again = operations.retry(parent.id, by=None)
    job = farm.claim_one(worker)
    assert (job.id, job.checkpoint, job.children, [one.id for one in job.after or ()]) == (again.pk, "half", 1, [child])
    assert Step.objects.get(pk=again.pk).place_id == parent.id
    more = child_of(worker, job, 1)
    suspend(worker, job, child, more)
    assert claimed(worker).keys() == {more}
