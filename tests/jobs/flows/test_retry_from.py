"""A flow that is tried again from one of its jobs on: that one and what came after it, in their places."""

from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client

from jobs import operations
from jobs.errors import AlreadyRetried, JobsError, NotAllowed, NotEnded, NotFound, StepNotEnded
from jobs.models import Edge, Job, Step, Worker
from tests import farm
from tests.jobs.flows.test_children import child_of, parent_of, suspend

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    return farm.worker()


def submitted(**options: Any) -> list[int]:
    """split, two parts of which the second fails, what comes after both, and what comes after the first alone."""
    new = [
        farm.new_job(name="split", **options),
        farm.new_job(name="left", after=["split"], **options),
        farm.new_job(name="right", after=["split"], **options),
        farm.new_job(name="join", after=["left", "right"], **options),
        farm.new_job(name="aside", after=["left"], **options),
    ]
    return [one for one in operations.submit_many(new) if isinstance(one, int)]


def run(worker: Worker, *, failing: str | None = None) -> list[str]:
    """Do all that may be done, one after another; what that was."""
    done = []
    while jobs := operations.claim(worker, limit=1):
        name = Step.objects.get(pk=jobs[0].id).name
        done.append(name)
        farm.fail(worker, jobs[0], retryable=False) if name == failing else farm.succeed(worker, jobs[0], name)
    return done


def flow_of(job_id: int) -> int:
    flow_id = Job.objects.get(pk=job_id).flow_id
    assert flow_id is not None
    return flow_id


def test_a_job_and_all_that_came_after_it_run_again_and_nothing_else(worker: Worker) -> None:
    split, left, right, join, aside = submitted()
    assert run(worker, failing="right") == ["split", "left", "right", "aside"]
    again = operations.flows.retry(flow_of(left), by=None, from_job=left)
    retries = {job.retry_of_id: job.pk for job in Job.objects.filter(pk__in=again)}
    assert retries.keys() == {left, join, aside}
    assert again[0] == retries[left], "whoever comes first comes first"
    after = set(Edge.objects.filter(job_id=retries[join]).values_list("after_id", flat=True))
    assert after == {retries[left], right}, "what comes before is kept"
    assert run(worker) == ["left", "aside"], "the join is canceled, for the right one did not succeed"
    assert farm.status(retries[join]) == "canceled"
    assert {job.flow_id for job in Job.objects.all()} == {flow_of(split)}


def test_from_the_first_on_all_of_a_flow_that_succeeded_runs_again_and_sees_the_new_results(worker: Worker) -> None:
    split, *_ = submitted()
    run(worker)
    again = operations.flows.retry(flow_of(split), by=None, from_job=split)
    assert len(again) == 5
    [job] = operations.claim(worker, limit=9)
    farm.succeed(worker, job, "new")
    jobs = operations.claim(worker, limit=9)
    assert [[(one.id, one.result) for one in job.after or ()] for job in jobs] == [[(again[0], "new")]] * 2


def test_while_one_of_them_waits_or_runs_it_is_refused_by_its_number_and_nothing_changes(worker: Worker) -> None:
    split, left, right, join, aside = submitted()
    farm.succeed(worker, farm.claim_one(worker))
    flow_id = flow_of(split)
    with pytest.raises(NotEnded) as refused:
        operations.flows.retry(flow_id, by=None, from_job=left)
    assert not isinstance(refused.value, StepNotEnded)
    farm.claim_one(worker)
    with pytest.raises(StepNotEnded, match=f"Job {left}, which comes after that one, has not ended: cancel it"):
        operations.flows.retry(flow_id, by=None, from_job=split)
    for other in (left, right, join, aside):
        operations.cancel(other, by=None)
    assert Job.objects.count() == 5
    assert len(operations.flows.retry(flow_id, by=None, from_job=split)) == 5


def test_only_by_who_may_act_on_all_of_it_and_from_who_has_the_place(worker: Worker) -> None:
    ada, bo = farm.user("ada"), farm.user("bo")
    split, *_ = submitted(owner=ada)
    theirs = operations.submit("work", {}, owner=bo, after=[split]).pk
    run(worker)
    flow_id, attempts = flow_of(split), Job.objects.count()
    for who, first, error in ((ada, theirs, NotFound), (bo, split, NotFound), (ada, split, NotAllowed)):
        with pytest.raises(error):
            operations.flows.retry(flow_id, by=who, from_job=first)
    with pytest.raises(NotFound):
        operations.flows.retry(flow_id + 1, by=None, from_job=split)
    assert Job.objects.count() == attempts
    operations.retry(theirs, by=bo)
    run(worker)
    with pytest.raises(AlreadyRetried):
        operations.flows.retry(flow_id, by=bo, from_job=theirs)


def test_of_many_at_once_and_of_retries_of_single_jobs_one_is_first(worker: Worker) -> None:
    split, left, *_ = submitted()
    run(worker)
    flow_id = flow_of(split)

    def again(how: int) -> bool:
        try:
            if how % 2:
                operations.flows.retry(flow_id, by=None, from_job=split)
            else:
                operations.retry(left, by=None, once=True)
        except JobsError:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(again, range(8))) == 1
    assert {*Job.objects.living().values_list("retry_of", flat=True)} in ({left}, {*range(split, split + 5)})
    assert len(run(worker)) in {1, 5}


def test_of_a_child_it_is_that_one_alone_for_its_parent_submits_children_itself(worker: Worker) -> None:
    parent = parent_of(worker, name="parent")
    after = operations.submit("work", {}, after=[parent.id]).pk
    child = child_of(worker, parent, 0)
    suspend(worker, parent, child)
    run(worker)
    assert set(farm.statuses()) == {"success"}
    flow_id = flow_of(child)
    assert len(operations.flows.retry(flow_id, by=None, from_job=child)) == 1
    run(worker)
    again = operations.flows.retry(flow_id, by=None, from_job=parent.id)
    assert {*Job.objects.filter(pk__in=again).values_list("retry_of", flat=True)} == {parent.id, after}


def test_by_a_button_of_the_jobs_page_by_the_api_and_by_the_command(worker: Worker) -> None:
    ada = farm.user("ada")
    split, left, *_ = submitted(owner=ada)
    run(worker)
    flow_id, page = flow_of(split), Client()
    page.force_login(ada)
    assert f'name="from" value="{left}"' in page.get(f"/jobs/{left}/").content.decode()
    sent = page.post(f"/flows/{flow_id}/retry/", {"from": left}, follow=True).content.decode()
    assert f"Retried from job #{left}: 3 jobs submitted again." in sent
    sent = page.post(f"/flows/{flow_id}/retry/", {"from": left}, follow=True).content.decode()
    assert "retries it already; retry that one" in sent
    run(worker)
    out = StringIO()
    call_command("jobs", "retry_from", str(split), stdout=out)
    assert out.getvalue().startswith(f"#{split}: retried as #")
    alone = operations.submit("work", {}).pk
    with pytest.raises(CommandError, match="of no flow"):
        call_command("jobs", "retry_from", str(alone))
