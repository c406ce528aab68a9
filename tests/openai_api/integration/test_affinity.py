"""A call goes to the worker that had its conversation, unless that is too busy, and nobody waits for it for long."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import operations as jobs
from jobs.domain.workers import Facts
from jobs.models import Job, Requirement, Worker
from openai_api import domain, operations
from openai_api.models import KnownBeginning
from openai_api.operations import earlier
from tests import farm

pytestmark = pytest.mark.django_db
SHORT = domain.call("chat/completions", {"model": "tiny", "messages": []})
RULES = {"role": "system", "content": "Be short. " * 200}


def offering(name: str, *, slots: int | None = 8, loaded: tuple[str, ...] = (), owner: User | None = None) -> Worker:
    jobs.sync()
    worker = farm.worker(name, "openai", owner=owner)
    jobs.introduce(worker, Facts(models=("tiny",), concurrency=slots, loaded=loaded))
    return farm.stored_worker(worker)


@pytest.fixture
def hot() -> Worker:
    return offering("hot")


@pytest.fixture
def cold() -> Worker:
    return offering("cold")


def call(*words: str, path: str = "chat/completions", **body: Any) -> domain.Call:
    messages = [RULES, *({"role": "user", "content": word} for word in words)]
    return domain.call(path, {"model": "tiny", "messages": messages, **body})


def submitted(one: domain.Call, user: User, **options: Any) -> Job:
    return Job.objects.select_related("requirement").get(pk=operations.submit(one, user=user, **options).job_id)


def served(one: domain.Call, user: User, worker: Worker, result: Any = None) -> Job:
    """A call that this worker has answered."""
    job = submitted(one, user)
    farm.pass_time(job, 3)
    claimed = farm.claim_one(farm.stored_worker(worker))
    assert claimed.id == job.pk
    farm.succeed(worker, claimed, result or {"choices": []})
    return job


def preferred(job: Job) -> str | None:
    """The name of the worker that it prefers."""
    prefers = job.requirement.prefers if job.requirement else {}
    return Worker.objects.get(pk=prefers["@worker"]).name if "@worker" in prefers else None


def statements(user: User, one: domain.Call) -> int:
    """How many statements it takes to submit this call."""
    with CaptureQueriesContext(connection) as queries:
        operations.submit(one, user=user)
    return len(queries)


def claimed(worker: Worker) -> list[int]:
    return [one.id for one in jobs.claim(farm.stored_worker(worker), limit=10)]


class TestTheNextTurn:
    def test_goes_to_the_worker_that_had_the_one_before(self, ada: User, hot: Worker, cold: Worker) -> None:
        served(call("one"), ada, hot)
        job = submitted(call("one", "answer", "two"), ada)
        assert preferred(job) == "hot"
        assert claimed(cold) == []
        assert claimed(hot) == [job.pk]

    def test_follows_the_conversation_and_not_the_instructions_that_others_share(
        self, ada: User, hot: Worker, cold: Worker
    ) -> None:
        served(call("one"), ada, hot)
        served(call("other"), ada, cold)
        assert preferred(submitted(call("one", "answer", "two"), ada)) == "hot"

    def test_is_known_by_the_caller_s_key(self, ada: User, hot: Worker, cold: Worker) -> None:
        served(call("one", prompt_cache_key="k"), ada, hot)
        assert preferred(submitted(call("else", prompt_cache_key="k"), ada)) == "hot"

    def test_is_known_by_the_response_before_it(self, ada: User, hot: Worker, cold: Worker) -> None:
        def response(**more: Any) -> domain.Call:
            return domain.call("responses", {"model": "tiny", "input": "Why?", **more})

        first = served(response(), ada, hot, {"id": "resp_1", "output": []})
        job = submitted(response(previous_response_id=f"resp_{first.pk}"), ada)
        assert preferred(job) == "hot"

    def test_of_one_that_waits_yet_goes_where_that_one_goes(self, ada: User, hot: Worker, cold: Worker) -> None:
        served(call("one"), ada, hot)
        branches = [submitted(call("one", "answer", branch), ada) for branch in ("two", "three")]
        assert [preferred(job) for job in branches] == ["hot", "hot"]

    def test_is_not_another_person_s(self, ada: User, hot: Worker, cold: Worker) -> None:
        served(call("one", prompt_cache_key="k"), ada, hot)
        served(call("one"), ada, hot)
        eve = farm.user("eve")
        for theirs in (call("one", "answer", "two"), call("one", prompt_cache_key="k")):
            assert preferred(submitted(theirs, eve)) is None

    def test_never_prefers_a_worker_that_may_not_take_it(self, ada: User, cold: Worker) -> None:
        bob = farm.user("bob")
        offering("warm")
        served(call("one"), ada, bobs := offering("bobs", owner=ada))
        Worker.objects.filter(pk=bobs.pk).update(owner=bob)
        assert preferred(submitted(call("one", "answer", "two"), ada)) is None

    def test_chooses_its_worker_by_labels_where_it_has_conditions(self, ada: User, hot: Worker, cold: Worker) -> None:
        served(call("one"), ada, hot)
        job = submitted(call("one", "answer", "two"), ada, prefers={"region": "home"})
        assert job.requirement.prefers == {"region": "home"}


class TestAWorkerThatHasTheBeginning:
    def test_loses_the_conversation_while_it_is_too_busy(self, ada: User, hot: Worker, cold: Worker) -> None:
        served(call("one"), ada, hot)
        for number in range(4):
            submitted(call(f"busy {number}"), ada)
        assert len(claimed(hot)) == 4
        job = submitted(call("one", "answer", "two"), ada)
        assert job.requirement_id is None
        assert claimed(cold) == [job.pk]

    def test_is_too_busy_with_what_waits_for_it_too(self, ada: User, hot: Worker, cold: Worker) -> None:
        served(call("one"), ada, hot)
        many = [submitted(call("one", "answer", str(number)), ada) for number in range(6)]
        assert [preferred(job) for job in many] == ["hot"] * 4 + [None] * 2

    def test_without_a_free_slot_is_too_busy(self, ada: User, cold: Worker) -> None:
        small = offering("small", slots=1)
        served(call("one"), ada, small)
        submitted(call("busy"), ada)
        assert len(claimed(small)) == 1
        assert preferred(submitted(call("one", "answer", "two"), ada)) is None

    @pytest.mark.parametrize("how", ["drained", "slow", "lost"])
    def test_strands_nothing(self, ada: User, hot: Worker, cold: Worker, how: str) -> None:
        served(call("one"), ada, hot)
        job = submitted(call("one", "answer", "two"), ada)
        if how == "drained":
            jobs.drain(hot)
        elif how == "lost":
            farm.lose(farm.claim_one(farm.stored_worker(hot)))
        if how != "drained":
            assert claimed(cold) == []
            farm.pass_time(job, 2.1)
        assert claimed(cold) == [job.pk]

    def test_that_is_drained_is_preferred_by_nothing_new(self, ada: User, hot: Worker, cold: Worker) -> None:
        offering("third")
        served(call("one"), ada, hot)
        jobs.drain(hot)
        assert preferred(submitted(call("one", "answer", "two"), ada)) is None

    def test_is_not_waited_for_because_it_alone_has_the_model_loaded(self, ada: User, cold: Worker) -> None:
        warm = offering("warm", slots=1, loaded=("tiny",))
        served(call("one"), ada, warm)
        submitted(call("busy"), ada)
        assert len(claimed(warm)) == 1
        assert submitted(call("one", "answer", "two"), ada).requirement_id is None
        offering("other", loaded=("tiny",))
        assert submitted(call("one", "answer", "three"), ada).requirement.prefers == {"loaded": "tiny"}

    @pytest.mark.parametrize(("cache_used", "name"), [(0.8, "hot"), (0.9, None), (1.0, None)])
    def test_whose_cache_is_full_attracts_no_calls(
        self, ada: User, hot: Worker, cold: Worker, cache_used: float, name: str | None
    ) -> None:
        served(call("one"), ada, hot)
        jobs.introduce(hot, Facts(models=("tiny",), concurrency=8, cache_used=cache_used))
        assert preferred(submitted(call("one", "answer", "two"), ada)) == name


class TestWhatItCosts:
    def test_is_nothing_where_one_worker_has_the_model(self, ada: User, hot: Worker) -> None:
        statements(ada, SHORT)  # what processes remember
        assert statements(ada, call("one")) == statements(ada, SHORT)
        assert not KnownBeginning.objects.exists()

    def test_is_few_statements_where_several_have_it(self, ada: User, hot: Worker, cold: Worker) -> None:
        statements(ada, SHORT)
        usual = statements(ada, SHORT)
        assert statements(ada, call("one")) == usual + 2  # a look, and a row
        jobs.cancel_many([job.pk for job in Job.objects.all()], by=None)
        served(call("one"), ada, hot)
        statements(ada, call("one", "answer", "its set is new"))
        assert statements(ada, call("one", "answer", "two")) == usual + 7  # three of them of any preference

    def test_is_nothing_for_what_has_no_conversation(self, ada: User, hot: Worker, cold: Worker) -> None:
        operations.submit(domain.call("embeddings", {"model": "tiny", "input": "word " * 900}), user=ada)
        operations.submit(domain.call("chat/completions", {"model": "tiny", "messages": []}), user=ada)
        assert not KnownBeginning.objects.exists()

    def test_is_a_few_rows_a_call_and_one_set_a_worker(self, ada: User, hot: Worker, cold: Worker) -> None:
        words = ["one"]
        for number in range(8):
            served(call(*words), ada, hot if number < 4 else cold)
            words += ["answer", f"turn {number}"]
        assert KnownBeginning.objects.count() == 8
        assert Requirement.objects.count() <= 2

    def test_ends_after_an_hour_and_beyond_a_number_of_rows(
        self, ada: User, hot: Worker, cold: Worker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        served(call("one"), ada, hot)
        KnownBeginning.objects.update(expires_at=farm.now())
        assert preferred(submitted(call("one", "answer", "two"), ada)) is None
        farm.retain("beginnings of calls")
        assert KnownBeginning.objects.count() == 1  # of the newest call
        monkeypatch.setattr(earlier, "MOST", 1)
        submitted(call("other"), ada)
        farm.retain("beginnings of calls")
        assert KnownBeginning.objects.count() == 1


def test_a_row_that_is_wrong_stops_no_call(ada: User, hot: Worker, cold: Worker) -> None:
    served(call("one"), ada, hot)
    for job_id in (0, -5, 2**62):
        KnownBeginning.objects.update(job_id=job_id)
        assert preferred(submitted(call("one", "answer", "two"), ada)) is None
    Requirement.objects.update(prefers={"@worker": "everybody"})
    assert preferred(submitted(call("one", "answer", "three"), ada)) is None
