"""Jobs that come after other jobs: when they start, what they are given, and what becomes of them otherwise."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from jobs import operations
from jobs.domain.states import Status
from jobs.errors import InvalidValue, UnknownJob, WaitsBehind
from jobs.models import Edge, EndedStep, Flow, Job, Lane, Live, PausedOwner, Queue, Step, Worker
from jobs.operations import edges
from jobs.operations.set_aside import ASIDE
from jobs.queries import flows, moves, reads
from postgres import statements
from tests import farm
from tests.doctor import named_errors
from tests.effort import share
from tests.explained import explain

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    return farm.worker()


def submit(*after: int | str, **options: Any) -> int:
    return operations.submit("work", {}, after=list(after), **options).pk


def claimed(worker: Worker) -> dict[int, operations.ClaimedJob]:
    return {one.id: one for one in operations.claim(worker, limit=100)}


def why(job_id: int) -> list[str]:
    return [reason.code for reason in reads.why_not_running(job_id)]


def test_a_job_starts_once_all_that_it_comes_after_have_succeeded_and_is_given_their_results(worker: Worker) -> None:
    first, second = submit(name="split"), submit()
    last = submit(first, second)
    [reason] = [one for one in reads.why_not_running(last) if one.code == "waits_after"]
    assert reason.sentence == f"It comes after jobs {first} and {second} in its flow, which have not ended."
    jobs = claimed(worker)
    assert jobs.keys() == {first, second}
    farm.succeed(worker, jobs[first], {"parts": 3})
    assert claimed(worker) == {}
    farm.succeed(worker, jobs[second], None)
    [job] = claimed(worker).values()
    assert job.id == last
    assert job.after is not None
    assert [(one.id, one.name, one.kind, one.status, one.result) for one in job.after] == [
        (first, "split", "work", Status.SUCCESS, {"parts": 3}),
        (second, "", "work", Status.SUCCESS, None),
    ]
    operations.tend_lanes()
    assert not EndedStep.objects.exists()


def test_a_job_that_waits_in_a_flow_is_none_that_the_doctor_names(worker: Worker) -> None:
    first = submit()
    later = submit(first)
    assert operations.broken_jobs(most=9) == []
    farm.make_due(Job.objects.get(pk=later))
    assert [job_id for job_id, _ in operations.broken_jobs(most=9)] == [later], "it would begin too early"


def test_those_of_one_call_name_one_another_in_any_order(worker: Worker) -> None:
    b_after_a = farm.new_job(after=["a"], name="b")
    new = [farm.new_job(name="join", after=["a", "b"]), farm.new_job(name="a"), b_after_a, farm.new_job()]
    join, a, b, other = operations.submit_many(new)
    assert claimed(worker).keys() == {a, other}
    assert Job.objects.get(pk=a).flow_id == Job.objects.get(pk=join).flow_id
    assert Job.objects.get(pk=other).flow_id is None
    assert dict(Step.objects.values_list("job_id", "depth")) == {a: 0, b: 1, join: 2}


@pytest.mark.parametrize("how", ["failed", "canceled", "timed out", "canceled unbegun"])
def test_what_comes_after_one_that_did_not_succeed_is_canceled_and_so_on_down(worker: Worker, how: str) -> None:
    first = submit()
    second = submit(first)
    third = submit(second)
    whatever = submit(second, when="ended")
    if how == "canceled unbegun":
        operations.cancel(first, by=None)
    else:
        [job] = claimed(worker).values()
        match how:
            case "failed":
                farm.fail(worker, job, retryable=False)
            case "canceled":
                operations.cancel(first, by=None)
            case _:
                farm.time_out(job)
    assert farm.statuses([second, third]) == ["canceled", "canceled"]
    assert claimed(worker).keys() == {whatever}
    sentences = [reads.why_not_running(one)[0].sentence for one in (second, third)]
    assert sentences == [f"It was canceled, for job {first}, which it comes after in its flow, did not succeed."] * 2


def test_one_failure_is_enough_whoever_looks_first(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the failure may be slower than that of the success which ended after it."""
    good, bad = submit(), submit()
    last = submit(good, bad)
    jobs = claimed(worker)
    with monkeypatch.context() as slow:
        slow.setattr(edges, "look_after", lambda ids: None)
        farm.fail(worker, jobs[bad], retryable=False)
    farm.succeed(worker, jobs[good])
    assert claimed(worker) == {}
    assert reads.why_not_running(last)[0].sentence.startswith(f"It was canceled, for job {bad},")


def test_a_failure_that_is_tried_again_ends_nothing(worker: Worker) -> None:
    first = submit()
    second = submit(first)
    farm.fail(worker, claimed(worker)[first])
    assert farm.status(second) == "pending"


def test_what_has_ended_before_the_submit_is_not_waited_for(worker: Worker) -> None:
    good, bad = submit(), submit()
    jobs = claimed(worker)
    farm.succeed(worker, jobs[good], 7)
    farm.fail(worker, jobs[bad], retryable=False)
    after_good, after_bad, whatever = submit(good), submit(bad), submit(good, bad, when="ended")
    assert farm.status(after_bad) == "canceled"
    jobs = claimed(worker)
    assert jobs.keys() == {after_good, whatever}
    assert [(one.id, one.status) for one in jobs[whatever].after or ()] == [(good, "success"), (bad, "failed")]


def test_a_retry_takes_the_place_and_what_was_canceled_for_its_sake_is_submitted_again(worker: Worker) -> None:
    first = submit(name="first")
    second = submit(first, name="second")
    third = submit(first, second, name="third")
    by_hand = submit(first)
    operations.cancel(by_hand, by=None)
    farm.fail(worker, claimed(worker)[first], retryable=False)
    again = operations.retry(first, by=None).pk
    retries = dict(Job.objects.filter(retry_of__isnull=False).values_list("retry_of_id", "pk"))
    assert retries.keys() == {first, second, third}
    assert set(Edge.objects.filter(job_id=retries[third]).values_list("after_id", flat=True)) == {
        again,
        retries[second],
    }
    assert Step.objects.get(pk=retries[second]).place_id == second
    for expected in (again, retries[second], retries[third]):
        [job] = claimed(worker).values()
        assert job.id == expected
        farm.succeed(worker, job)
    assert Flow.objects.count() == 1


def test_flows_that_a_job_connects_become_one(worker: Worker) -> None:
    one, other = submit(name="one"), submit(name="other")
    tail = submit(other)
    assert Flow.objects.count() == 2
    both = submit(one, tail)
    assert {*Job.objects.values_list("flow_id", flat=True)} == {Job.objects.get(pk=one).flow_id}
    assert Flow.objects.count() == 1
    assert Step.objects.get(pk=both).depth == 2


def test_a_moment_and_an_expiry_count_from_when_it_may_start(worker: Worker) -> None:
    farm.kind("brief", queue="work", expires_s=60)
    first = submit()
    later = submit(first, run_at=farm.now() + timedelta(hours=1))
    brief = operations.submit("brief", {}, after=[first]).pk
    assert Job.objects.get(pk=brief).expires_at is None
    farm.succeed(worker, claimed(worker)[first])
    job = Job.objects.get(pk=brief)
    assert job.expires_at is not None
    assert (job.expires_at - job.run_at).total_seconds() == 60
    assert claimed(worker).keys() == {brief}
    assert why(later)[0] == "not_due"


def test_nobody_makes_it_start_before(worker: Worker) -> None:
    first = submit()
    second = submit(first)
    with pytest.raises(WaitsBehind, match=f"job {first}"):
        operations.run_now(second, by=None)
    assert operations.change_priority(second, 5, by=None).is_behind
    assert claimed(worker).keys() == {first}


def test_it_waits_on_when_its_owner_is_deleted(worker: Worker) -> None:
    """One with a unique_key, too: what waits behind such a key is due then, for nobody has the key any more."""
    ada = farm.user("ada")
    first = submit()
    second = submit(first, owner=ada, unique_key="k")
    ada.delete()
    assert claimed(worker).keys() == {first}
    assert Job.objects.get(pk=second).is_behind


def test_only_jobs_that_one_may_see_are_named(worker: Worker) -> None:
    ada, bo = farm.user("ada"), farm.user("bo")
    theirs = operations.submit("work", {}, owner=ada, by=ada).pk
    with pytest.raises(UnknownJob, match=str(theirs)):
        operations.submit("work", {}, owner=bo, by=bo, after=[theirs])
    with pytest.raises(UnknownJob):
        submit(10**12)


@pytest.mark.parametrize(
    ("new", "why"),
    [
        ([{"name": one, "after": [before]} for one, before in ("ab", "bc", "ca")], "circle: a -> b -> c -> a"),
        ([{"name": "a", "after": ["a"]}], "circle: a -> a"),
        ([{"after": ["b"]}], "no job of this call is called 'b'"),
        ([{"name": "a"}, {"name": "a"}], "two jobs of one call are called 'a'"),
        ([{"name": " a"}], "no space at its ends"),
        ([{"when": "ended"}], "there is none"),
        ([{"name": "a"}, {"after": ["a"], "when": "soon"}], '"success" or "ended"'),
        ([{"after": [0]}], "no job has the id 0"),
        ([{"after": [Job(pk=7, kind="work")]}], "no job has the id work #7"),
        ([{"name": "a"}, {"unique_key": "k", "on_conflict": "replace"}], "replaces no job"),
        ([{"name": f"{n}", "after": [f"{n - 1}"] if n else []} for n in range(1001)], "1,000 jobs one after another"),
        ([{"name": "a"}, *[{"after": ["a"]}] * 1001], "1,000 jobs come after one"),
    ],
)  # fmt: skip
def test_what_makes_no_order_is_refused(worker: Worker, new: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        operations.submit_many([farm.new_job(**one) for one in new])
    assert why in str(refused.value)
    assert not Job.objects.exists()


def test_the_bounds_of_a_flow_hold_over_several_calls(worker: Worker) -> None:
    chain = operations.submit_many([farm.new_job(name=f"{n}", after=[f"{n - 1}"] if n else None) for n in range(1000)])
    wide = operations.submit_many([farm.new_job(name="a"), *[farm.new_job(after=["a"]) for _ in range(1000)]])
    for last, why in ((chain[-1], "1,000 jobs one after another at most"), (wide[0], "1,000 jobs come after one")):
        with pytest.raises(InvalidValue, match=why):
            operations.submit("work", {}, after=[last])  # type: ignore[list-item]
    assert Job.objects.count() == 2001


def test_a_job_comes_after_ten_thousand_at_most(worker: Worker) -> None:
    ids = [*operations.submit_many([farm.new_job() for _ in range(10_001)])]
    for after in (ids, [*ids[:-1], "b"]):
        new = [farm.new_job(name="b"), farm.new_job(after=after)]
        with pytest.raises(InvalidValue, match="10,000"):
            operations.submit_many(new)
    last = submit(*ids[:-1])  # type: ignore[arg-type]
    assert Edge.objects.filter(open_of=last).count() == 10_000


def test_a_flow_is_kept_until_its_last_job_has_ended(worker: Worker) -> None:
    first = submit()
    second = submit(first)
    other = submit()
    jobs = claimed(worker)
    farm.succeed(worker, jobs[first])
    farm.succeed(worker, jobs[other])
    farm.age(Job.objects.ended(), 400 * 86400)
    assert farm.retain() == 1
    assert set(Job.objects.values_list("pk", flat=True)) == {first, second}
    farm.succeed(worker, claimed(worker)[second])
    farm.age(Job.objects.ended(), 400 * 86400)
    assert farm.retain() == 2
    assert [model.objects.count() for model in (Flow, Step, Edge)] == [0, 0, 0]


def test_a_chain_of_hundreds_ends_with_its_first_job(worker: Worker) -> None:
    length = share(1000, of=4)
    operations.submit_many([farm.new_job(name=f"{n}", after=[f"{n - 1}"] if n else None) for n in range(length)])
    [first] = claimed(worker).values()
    farm.fail(worker, first, retryable=False)
    assert not Job.objects.living().exists()
    assert set(Step.objects.exclude(job=first.id).values_list("canceled_for", flat=True)) == {first.id}


@pytest.mark.parametrize("when", ["success", "ended"])
def test_what_a_crash_left_waiting_the_janitor_finds(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, poison: Callable[[int], None], when: Literal["success", "ended"]
) -> None:
    """The end could not let it go by itself, and its process died before it looked after the commit."""
    monkeypatch.setattr(edges, "look_after", lambda ids: None)
    first = submit()
    second = submit(first, when=when)
    poison(second)
    job = claimed(worker)[first]
    farm.succeed(worker, job) if when == "success" else farm.fail(worker, job, retryable=False)
    assert claimed(worker) == {}
    assert reads.why_not_running(second)[0].sentence.endswith("it may start in a moment.")
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION refuse CASCADE")
    operations.tend_lanes()
    assert claimed(worker).keys() == {second}


def test_the_call_that_ends_a_step_may_take_the_next_one(worker: Worker) -> None:
    first = submit()
    second = submit(first)
    job = farm.claim_one(worker)
    done = [operations.Finished(job_id=job.id, lease=job.lease, outcome="success", result=1)]
    _, [following] = operations.finish_and_claim(worker, done, limit=1)
    assert following.id == second
    assert [one.result for one in following.after or ()] == [1]
    assert not EndedStep.objects.exists()


def test_one_that_cannot_be_let_go_keeps_nobody_waiting(
    worker: Worker, poison: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither whoever ends others, nor the janitor, who puts it aside for a minute."""
    ASIDE.forget()
    firsts = [submit() for _ in range(4)]
    laters = [submit(one) for one in firsts]
    poison(laters[1])
    jobs = claimed(worker)
    for first in firsts[:3]:
        farm.succeed(worker, jobs[first])
    assert claimed(worker).keys() == {laters[0], laters[2]}
    with monkeypatch.context() as crash:  # before anybody looked
        crash.setattr(flows, "close_edges", lambda ids: [])
        farm.succeed(worker, jobs[firsts[3]])
    Edge.objects.filter(after_id=firsts[3]).update(open_of=None)
    EndedStep.objects.create(job_id=firsts[3])
    operations.tend_lanes()
    assert claimed(worker).keys() == {laters[3]}
    assert ASIDE.ids() == [firsts[1]]
    assert f"The job {firsts[1]} is put aside: " in named_errors()
    assert list(EndedStep.objects.values_list("job_id", flat=True)) == [firsts[1]]
    ASIDE.forget()


def test_what_a_call_asks_of_flows_grows_with_its_jobs_and_not_with_their_square(worker: Worker) -> None:
    before = [submit() for _ in range(100)]
    later = [submit(job_id) for job_id in before]
    jobs = operations.claim(worker, limit=100)
    assert [job.id for job in jobs] == before
    leases = [(job.id, job.lease) for job in jobs]
    with transaction.atomic():
        end = _nodes(moves.succeed_call(worker, leases, [None] * 100))
        transaction.set_rollback(True)
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in end) < 30 * len(jobs)
    moves.succeed(worker, leases, results=[None] * 100, runs=[])
    rows = moves.claim(worker, queues=worker.queues, limit=100, only_if_idle=False)
    assert [row.id for row in rows] == later
    assert [len(row.after) for row in rows if row.after is not None] == [100], "asked once for all"


def test_what_a_claim_brings_of_all_its_jobs_together_is_bounded_too(worker: Worker) -> None:
    first = submit()
    for _ in range(20):
        submit(first)
    farm.succeed(worker, farm.claim_one(worker), "x" * 88)  # 90 bytes of JSON
    rows = moves.claim(worker, queues=worker.queues, limit=20, only_if_idle=False)
    with connection.cursor() as cursor:
        ids = [row.id for row in rows]
        cursor.execute("SELECT jobs_came_after(%s::bigint[], %s::bigint, 100)", [ids, ids[0]])
        steps = cursor.fetchone()[0]
    assert [step["result"] is not None for step in steps] == [True] * 17 + [False] * 3
    assert all(step["has_result"] for step in steps)


def _nodes(call: statements.Call) -> list[dict[str, Any]]:
    statement, params = call
    nodes, waiting = list[dict[str, Any]](), [explain(statement, params)["Plan"]]
    while waiting:
        nodes.append(waiting.pop())
        waiting += nodes[-1].get("Plans", ())
    return nodes


def test_a_step_is_let_go_in_the_lane_that_it_waits_in_unless_that_is_not_its_own_any_more(worker: Worker) -> None:
    """What moves waiting jobs may not have come to it: the queue is shared out, age had raised it, who has it is
    paused."""
    owner = User.objects.create(username="ada")
    changes: dict[str, tuple[Callable[[Live], object], tuple[str, int, int]]] = {
        "nothing": (lambda _: None, ("off", 0, 0)),
        "fair": (lambda live: Queue.objects.filter(name=live.queue).update(fair="owner"), ("owner", 0, 0)),
        "raised": (lambda live: Lane.objects.filter(pk=live.lane_id).update(raised=1, priority=1), ("owner", 0, 0)),
        "held for": (lambda _: PausedOwner.objects.create(owner=owner), ("owner", 0, owner.pk)),
    }
    for name, (change, expected) in changes.items():
        first = submit()
        step = Live.objects.get(pk=submit(first, owner=owner))
        change(step)
        farm.succeed(worker, claimed(worker)[first])
        lane = Lane.objects.get(pk=Live.objects.get(pk=step.pk).lane_id)
        assert (lane.fair, lane.raised, lane.held_for) == expected
        assert (lane.pk == step.lane_id) == (name == "nothing")
        assert (step.pk in claimed(worker)) == (name != "held for")
