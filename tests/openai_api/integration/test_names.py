"""Which models may be called, by what name, and what becomes of calls that wait."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db.models import F
from django.db.models.functions import Now
from pytest_django import DjangoAssertNumQueries

from accounts import operations as accounts
from jobs import operations as jobs
from jobs.domain.workers import Facts
from jobs.models import Job, Live, Worker, WorkerFacts
from metering import operations as metering
from metering.models import Model
from openai_api import domain, operations
from openai_api.errors import InvalidCall, UnknownModel
from openai_api.models import Alias, CallRule, Fallback
from openai_api.operations import names
from tests import farm
from tests.doctor import named_errors
from tests.openai_api import batching
from tests.openai_api.integration.test_operations import offering

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def decided() -> None:
    """Nothing is remembered of the test before."""
    names.forget()


def alias(name: str, *models: tuple[str, float], is_only_way: bool = False) -> None:
    Alias.objects.bulk_create(Alias(name=name, model=m, after_s=s, is_only_way=is_only_way) for m, s in models)
    names.forget()


def called(model: str, user: User, **options: Any) -> Job:
    call = domain.call("embeddings", {"model": model, "input": "word"})
    return Job.objects.whole().get(pk=operations.submit(call, user=user, **options).job_id)


def waited(job: Job, seconds: float) -> None:
    """Let the job, and what it is to fall back by, be so much older."""
    ago = timedelta(seconds=seconds)
    Live.objects.filter(pk=job.pk).update(run_at=F("run_at") - ago)
    Fallback.objects.filter(pk=job.pk).update(due_at=F("due_at") - ago)


def queue(job: Job) -> str:
    """Of the record; the live row's is the same."""
    live = Live.objects.select_related("lane").get(pk=job.pk)
    record = Job.objects.get(pk=job.pk)
    assert record.queue == live.queue
    return str(record.queue)


class TestAnAlias:
    def test_is_listed_and_called_by_its_first_model_that_is_offered(self, ada: User) -> None:
        offering("large", "small")
        alias("gpt", ("absent", 0), ("large", 5), ("small", 20))
        assert [*operations.models(ada)] == ["gpt", "large", "small"]
        job = called("gpt", ada)
        assert job.queue == "openai.large"
        assert job.payload == {
            "path": "embeddings", "body": {"model": "large", "input": "word"}, "alias": "gpt",
            "models": {"openai.large": "large", "openai.small": "small"},
        }  # fmt: skip
        assert operations.find(job.pk, path="embeddings", user=ada).model == "large"

    def test_none_of_whose_models_is_offered_is_unknown(self, ada: User) -> None:
        alias("gpt", ("large", 0))
        with pytest.raises(UnknownModel):
            called("gpt", ada)
        assert not Job.objects.exists()

    def test_wins_over_a_model_of_its_name(self, ada: User) -> None:
        offering("gpt", "large")
        alias("gpt", ("large", 0))
        job = called("gpt", ada)
        assert (job.queue, job.payload["body"]["model"]) == ("openai.large", "large")
        assert not Fallback.objects.exists()

    def test_is_the_only_way_to_a_model_where_it_says_so(self, ada: User) -> None:
        offering("outside")
        alias("gpt", ("outside", 0), is_only_way=True)
        assert [*operations.models(ada)] == ["gpt"]
        with pytest.raises(UnknownModel):
            called("outside", ada)
        assert called("gpt", ada).queue == "openai.outside"

    def test_is_for_whom_a_worker_of_its_model_serves(self, ada: User) -> None:
        offering("large", owner=farm.user("eve"))
        alias("gpt", ("large", 0))
        assert operations.models(ada) == {}


class TestACallThatWaits:
    def test_goes_to_the_next_model_and_then_to_the_last(self, ada: User) -> None:
        offering("a", "b", "c")
        alias("gpt", ("a", 0), ("b", 20), ("c", 60))
        job = called("gpt", ada)
        names.fall_back()
        assert queue(job) == "openai.a"
        waited(job, 21)
        names.fall_back()
        assert queue(job) == "openai.b"
        assert Fallback.objects.get().steps == [["c", 60]]
        waited(job, 40)
        names.fall_back()
        assert queue(job) == "openai.c"
        assert not Fallback.objects.exists()
        found = operations.find(job.pk, path="embeddings", user=ada)
        assert (found.model, found.may_move) == ("c", True)

    def test_stays_with_the_worker_that_claimed_it(self, ada: User) -> None:
        first = offering("a")
        offering("b")
        alias("gpt", ("a", 0), ("b", 20))
        job = called("gpt", ada)
        farm.claim_one(first)
        waited(job, 21)
        names.fall_back()
        assert queue(job) == "openai.a"
        assert Fallback.objects.filter(due_at__gt=Now()).count() == 1

    def test_that_came_back_from_a_lost_worker_goes_on_too(self, ada: User) -> None:
        first = offering("a")
        offering("b")
        alias("gpt", ("a", 0), ("b", 20))
        job = called("gpt", ada)
        held = farm.claim_one(first)
        waited(job, 21)
        names.fall_back()
        jobs.release(first, held.id, held.lease)
        Live.objects.filter(pk=job.pk).update(run_at=Now() - timedelta(seconds=30))
        Fallback.objects.update(due_at=Now())
        names.fall_back()
        assert queue(job) == "openai.b"

    def test_passes_over_a_model_that_nobody_offers(self, ada: User) -> None:
        offering("a", "c")
        alias("gpt", ("a", 0), ("b", 20), ("c", 30))
        job = called("gpt", ada)
        waited(job, 21)
        names.fall_back()
        assert queue(job) == "openai.a"
        waited(job, 21)
        names.fall_back()
        assert queue(job) == "openai.c"

    def test_that_ended_is_forgotten(self, ada: User) -> None:
        offering("a", "b")
        alias("gpt", ("a", 0), ("b", 20))
        job = called("gpt", ada)
        operations.give_up(job.pk)
        waited(job, 21)
        names.fall_back()
        assert not Fallback.objects.exists()

    def test_that_cannot_be_moved_keeps_no_other_from_it(self, ada: User) -> None:
        offering("a", "b")
        alias("gpt", ("a", 0), ("b", 20))
        poisoned, other = called("gpt", ada), called("gpt", ada)
        Fallback.objects.filter(pk=poisoned.pk).update(steps=[["b"]])
        for job in (poisoned, other):
            waited(job, 21)
        names.fall_back()
        assert (queue(poisoned), queue(other)) == ("openai.a", "openai.b")
        assert f"the call of job {poisoned.pk} cannot fall back: " in named_errors()
        assert Fallback.objects.filter(pk=poisoned.pk, due_at__gt=Now()).exists()

    def test_is_moved_by_the_janitor(self, ada: User) -> None:
        offering("a", "b")
        alias("gpt", ("a", 0), ("b", 20))
        job = called("gpt", ada)
        waited(job, 21)
        jobs.tend_lanes()
        assert queue(job) == "openai.b"

    def test_costs_what_the_model_costs_that_answers(self, ada: User) -> None:
        worker = offering("a", "b")
        Model.objects.create(name="b", price_in=2_000_000)
        alias("gpt", ("a", 0), ("b", 20))
        job = called("gpt", ada)
        waited(job, 21)
        names.fall_back()
        held = farm.claim_one(farm.stored_worker(worker))
        result = {"usage": {"prompt_tokens": 3}}
        jobs.finish(worker, [jobs.Finished(job_id=held.id, lease=held.lease, outcome="success", result=result)])
        used = metering.of_job(job.pk)
        assert used is not None
        assert (used.model, used.tokens_in, used.cost) == ("b", 3, Decimal(6))

    def test_of_a_batch_goes_on_too(self, ada: User) -> None:
        worker = offering("a", "b")
        alias("gpt", ("a", 0), ("b", 20))
        lines = [batching.line(number, body={"model": "gpt", "input": f"word {number}"}) for number in range(2)]
        batch = batching.step(batching.made(batching.text(*lines), user=ada))
        first, second = Job.objects.order_by("pk")
        assert (queue(first), queue(second)) == ("openai.a", "openai.a")
        waited(first, 21)
        names.fall_back()
        assert (queue(first), queue(second)) == ("openai.b", "openai.a")
        batch = batching.to_the_end(batch, by=farm.stored_worker(worker))
        assert (batch.status, batch.completed) == ("completed", 2)


class TestAModelWhoseWorkerIsAway:
    def test_takes_calls_for_a_while_and_is_not_listed(self, ada: User, settings: Any) -> None:
        worker = offering("tiny")
        jobs.introduce(worker, Facts(models=("tiny",), leaving=True))
        assert operations.models(ada) == {}
        assert called("tiny", ada).queue == "openai.tiny"
        settings.OPENAI = settings.OPENAI | {"RESTART_GRACE": 0}
        with pytest.raises(UnknownModel):
            called("tiny", ada)

    def test_waits_for_a_model_server_that_starts(self, ada: User) -> None:
        worker = offering("tiny")
        jobs.introduce(worker, Facts())
        assert operations.models(ada) == {}
        job = called("tiny", ada)
        jobs.introduce(farm.stored_worker(worker), Facts(models=("tiny",)))
        assert [*operations.models(ada)] == ["tiny"]
        assert farm.claim_one(farm.stored_worker(worker)).id == job.pk

    def test_is_unknown_after_that(self, ada: User) -> None:
        worker = offering("tiny")
        jobs.introduce(worker, Facts())
        WorkerFacts.objects.update(reported_at=Now() - timedelta(seconds=121))
        with pytest.raises(UnknownModel):
            called("tiny", ada)

    def test_that_was_killed_is_waited_for_as_long(self, ada: User, settings: Any) -> None:
        offering("tiny")
        settings.OPENAI = settings.OPENAI | {"RESTART_GRACE": 300}
        Worker.objects.update(last_seen_at=Now() - timedelta(seconds=200))
        assert operations.models(ada) == {}
        assert called("tiny", ada).queue == "openai.tiny"
        Worker.objects.update(last_seen_at=Now() - timedelta(seconds=301))
        with pytest.raises(UnknownModel):
            called("tiny", ada)


class TestRules:
    def test_of_a_token_bound_what_it_calls_and_no_other(self, ada: User) -> None:
        offering("large", "small")
        token, other = (accounts.create_token(ada, name=name, scopes=["submit"])[0] for name in ("a", "b"))
        CallRule.objects.create(token=token, names=["small", "gpt"])
        alias("gpt", ("large", 0))
        assert [*operations.models(ada, token_id=token.pk)] == ["gpt", "small"]
        assert [*operations.models(ada, token_id=other.pk)] == ["gpt", "large", "small"]
        with pytest.raises(UnknownModel) as caught:
            called("large", ada, token_id=token.pk)
        assert "Offered are: gpt, small." in caught.value.message
        assert called("gpt", ada, token_id=token.pk).queue == "openai.large"

    def test_of_groups_add_up_and_bound_tokens_within_them(self, ada: User) -> None:
        offering("a", "b", "c")
        for name, of_group in (("one", ["a"]), ("two", ["b"]), ("other", ["c"])):
            group = Group.objects.create(name=name)
            CallRule.objects.create(group=group, names=of_group)
            if name != "other":
                ada.groups.add(group)
        names.forget()
        assert [*operations.models(ada)] == ["a", "b"]
        assert [*operations.models(farm.user("eve"))] == ["a", "b", "c"]
        token, _ = accounts.create_token(ada, name="a", scopes=["submit"])
        CallRule.objects.create(token=token, names=["b", "c"])
        names.forget()
        assert [*operations.models(ada, token_id=token.pk)] == ["b"]

    def test_of_a_token_win_over_those_of_groups_which_are_as_generous_as_the_most_generous(self, ada: User) -> None:
        token, _ = accounts.create_token(ada, name="a", scopes=["submit"])
        for name, requests in (("one", 5), ("two", 50)):
            group = Group.objects.create(name=name)
            ada.groups.add(group)
            CallRule.objects.create(group=group, requests_per_minute=requests)
        names.forget()
        assert names.per_minute(ada, token.pk) == {"requests": 50}
        CallRule.objects.create(token=token, requests_per_minute=7, tokens_per_minute=1000)
        names.forget()
        assert names.per_minute(ada, token.pk) == {"requests": 7, "tokens": 1000}
        assert names.per_minute(ada, None) == {}

    def test_of_groups_are_looked_up_once_for_a_call(
        self, ada: User, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        """Its limits and its model are asked for by the same person."""
        ada.groups.add(group := Group.objects.create(name="one"))
        CallRule.objects.create(group=group, names=["a"], requests_per_minute=5)
        rules = names.rules()
        with django_assert_num_queries(1):
            assert [rules.of(ada, 1) for _ in range(2)] == [(None, [rules.of_groups[group.pk]])] * 2


def submitted(payload: Any, by: User, **options: Any) -> Job:
    return jobs.submit("openai", payload, owner=by, by=by, **options)


def body(model: str) -> dict[str, Any]:
    return {"path": "embeddings", "body": {"model": model, "input": "word"}}


class TestAJobThatMakesACall:
    """As `POST /api/v1/jobs` takes it."""

    def test_is_taken_where_no_rule_bounds_it(self, ada: User) -> None:
        offering("tiny")
        assert submitted(body("tiny"), ada, queue="openai.tiny").queue == "openai.tiny"
        assert submitted(body("absent"), ada).queue == "openai"

    def test_reaches_no_model_that_an_alias_alone_reaches(self, ada: User) -> None:
        offering("outside", "tiny")
        alias("gpt", ("outside", 0), is_only_way=True)
        with pytest.raises(InvalidCall, match="/v1"):
            submitted(body("outside"), ada)
        with pytest.raises(InvalidCall):
            submitted(body("dearer"), ada, queue="openai.outside")
        assert submitted(body("tiny"), ada, queue="openai.tiny").queue == "openai.tiny"

    @pytest.mark.parametrize("more", [{"models": {"openai.tiny": "dearer"}}, {"alias": "gpt"}])
    def test_says_nothing_of_aliases(self, ada: User, more: dict[str, Any]) -> None:
        offering("tiny")
        with pytest.raises(InvalidCall):
            submitted({**body("tiny"), **more}, ada, queue="openai.tiny")

    def test_is_none_of_a_token_or_a_group_with_a_rule(self, ada: User) -> None:
        token, _ = accounts.create_token(ada, name="a", scopes=["submit"])
        CallRule.objects.create(token=token, names=["small"])
        CallRule.objects.create(group=Group.objects.create(name="bound"), requests_per_minute=5)
        names.forget()
        with pytest.raises(InvalidCall):
            submitted(body("small"), ada, token_id=token.pk)
        submitted(body("small"), ada)
        ada.groups.add(Group.objects.get(name="bound"))
        with pytest.raises(InvalidCall):
            submitted(body("small"), ada)

    def test_of_an_alias_is_tried_again_as_it_was(self, ada: User) -> None:
        offering("a", "b")
        alias("gpt", ("a", 0), ("b", 20))
        job = called("gpt", ada)
        operations.give_up(job.pk)
        assert jobs.retry(job.pk, by=ada).queue == "openai.a"
