"""Events of the outbox that are signals: what happens to one job lets another one go on."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from jobs import operations
from jobs.models import Worker
from outbox import operations as outbox
from outbox.models import Message
from tests import farm
from tests.jobs.flows.test_children import parent_of
from tests.jobs.flows.test_signals import suspend
from tests.outbox.support import drain, endpoint

pytestmark = pytest.mark.django_db(transaction=True)
BUILT = "signal:built?key={{data.unique_key}}"


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    return farm.worker()


def waiting(worker: Worker, owner: User | None) -> operations.ClaimedJob:
    job = parent_of(worker, owner=owner)
    assert suspend(worker, job, signal="built", signal_key="org/repo") == "pending"
    return job


def test_the_end_of_a_job_lets_the_jobs_go_on_that_wait_for_what_it_was_about(worker: Worker) -> None:
    ada, eve = farm.user("ada"), farm.user("eve")
    row = endpoint(BUILT, owner=ada, events=["job.succeeded"])
    mine, _eves = waiting(worker, ada), waiting(worker, eve)
    build = parent_of(worker, owner=ada, unique_key="org/repo")
    farm.succeed(worker, build)
    drain()
    [again] = operations.claim(worker, limit=9)
    assert again.id == mine.id
    assert again.signal is not None
    assert (again.signal.data["type"], again.signal.data["data"]["id"]) == ("job.succeeded", build.id)
    message = Message.objects.get(endpoint=row)
    assert (message.status, message.history.get().http_status) == ("delivered", 204)


def test_of_the_whole_farm_reach_everybodys_jobs_and_a_replay_of_one_is_none(worker: Worker) -> None:
    row = endpoint(BUILT, events=["job.*"])
    root = farm.user("root", is_staff=True, is_superuser=True)
    jobs = [waiting(worker, farm.user("ada")), waiting(worker, None)]
    farm.succeed(worker, parent_of(worker, unique_key="org/repo"))
    drain()
    claimed = operations.claim(worker, limit=9)
    assert {one.id for one in claimed} == {one.id for one in jobs}
    suspend(worker, claimed[0], signal="built", signal_key="org/repo")
    outbox.replay(Message.objects.filter(endpoint=row, event__type="job.succeeded").latest("pk").pk, by=root)
    drain()
    assert operations.claim(worker, limit=9) == []


def test_of_somebodys_event_go_to_that_persons_jobs_whoever_else_gets_it(worker: Worker) -> None:
    """Each endpoint that asks for an event sends a signal of its own, and nobody reaches others by a job of theirs."""
    ada, eve = farm.user("ada"), farm.user("eve")
    endpoint(BUILT, owner=ada, events=["job.succeeded"])
    rows = [endpoint(BUILT, events=["job.succeeded"], name=name) for name in ("first", "second")]
    waiting(worker, ada)
    mine = waiting(worker, eve)
    farm.succeed(worker, parent_of(worker, owner=eve, unique_key="org/repo"))
    drain()
    assert [one.id for one in operations.claim(worker, limit=9)] == [mine.id]
    assert {one.status for one in Message.objects.filter(endpoint__in=rows)} == {"delivered"}


def test_of_members_of_one_group_reach_the_jobs_of_each(worker: Worker) -> None:
    lab = Group.objects.create(name="lab")
    people = [farm.user(name, groups=[lab]) for name in ("ada", "eve")]
    for person in people:
        endpoint(BUILT, owner=person, events=["job.succeeded"])
    jobs = [waiting(worker, person) for person in people]
    farm.succeed(worker, parent_of(worker, owner=people[0], group=lab, unique_key="org/repo"))
    drain()
    assert {one.id for one in operations.claim(worker, limit=9)} == {job.id for job in jobs}


@pytest.mark.parametrize("url", ["signal:built?key={{data.nothing.here}}", BUILT])
def test_of_an_event_without_what_the_key_asks_for_are_for_nobody_and_say_so(worker: Worker, url: str) -> None:
    row = endpoint(url, events=["job.succeeded"])
    farm.succeed(worker, parent_of(worker))
    drain()
    message = Message.objects.get(endpoint=row)
    assert (message.status, message.attempts) == ("delivered", 1)
    assert message.history.get().answer.startswith("It is for nobody.")


def test_with_a_result_that_no_signal_holds_are_sent_without(worker: Worker) -> None:
    endpoint(BUILT, events=["job.succeeded"], with_result=True)
    waiting(worker, None)
    farm.succeed(worker, parent_of(worker, unique_key="org/repo"), result="x" * 70_000)
    drain()
    signal = farm.claim_one(worker).signal
    assert signal is not None
    assert "result" not in signal.data["data"]
    assert "more than" in signal.data["data"]["result_omitted"]


@pytest.mark.parametrize(("url", "why"), [
    ("signal:built", "with a key"), ("signal:?key=k", "printable"),
    ("signal:built?key={{ payload }}", "is nothing of an event"),
    ("signal:built?key=" + "x" * 201, "with a key"), ("signals:built?key=k", "begins with https"),
])  # fmt: skip
def test_that_name_no_signal_or_no_key_are_refused(url: str, why: Any) -> None:
    with pytest.raises(outbox.BadUrl, match=why):
        outbox.Wanted(name="x", url=url)


def test_show_no_secret_for_nobody_verifies_them() -> None:
    person = Client()
    person.force_login(farm.user("ada"))
    form = {"name": "signals", "url": BUILT, "events": ["job.*"]}
    page = person.post("/outbox/new/", form, follow=True).content.decode()
    assert ("It is active." in page, "Rotate the secret" in page, "<dt>Secret</dt>" in page) == (True, False, False)
