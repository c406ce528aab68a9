"""Calls as jobs: where they wait, who may try them again, and what a worker's key serves."""

import pytest
from django.contrib.auth.models import User

from jobs import operations as jobs
from jobs.domain.workers import Facts
from jobs.errors import QueueChoiceNotAllowed
from jobs.models import Job, Queue, Worker
from openai_api import domain, operations
from openai_api.errors import UnknownModel
from openai_api.models import LeftCall
from postgres import clock
from tests import farm

pytestmark = pytest.mark.django_db
CALL = domain.call("embeddings", {"model": "tiny", "input": "word"})


def offering(*models: str, queues: tuple[str, ...] = ("openai",), owner: User | None = None) -> Worker:
    """A live worker that announced these models."""
    jobs.sync()
    worker = farm.worker("w", *queues, owner=owner)
    jobs.introduce(worker, Facts(models=models))
    return farm.stored_worker(worker)


class TestACall:
    def test_waits_in_the_queue_of_its_model_and_only_who_serves_that_claims_it(self, ada: User) -> None:
        other, mine = offering("large"), offering("tiny")
        job = Job.objects.get(pk=operations.submit(CALL, user=ada).job_id)
        assert (job.kind, job.queue, job.owner_id) == ("openai", "openai.tiny", ada.pk)
        assert jobs.claim(other) == []
        assert farm.claim_one(mine).payload == {"path": "embeddings", "body": {"model": "tiny", "input": "word"}}

    def test_is_refused_while_nobody_offers_its_model(self, ada: User) -> None:
        worker = offering("tiny")
        jobs.introduce(worker, Facts(models=("other",)))
        assert farm.stored_worker(worker).queues == ["openai", "openai.other"]
        with pytest.raises(UnknownModel):
            operations.submit(CALL, user=ada)
        assert not Job.objects.exists()

    def test_is_tried_again_and_cloned_by_its_owner_without_a_right_to_queues(self, ada: User) -> None:
        offering("tiny")
        job = Job.objects.get(pk=operations.submit(CALL, user=ada).job_id)
        operations.give_up(job.pk)
        assert jobs.retry(job.pk, by=ada).queue == jobs.clone(job.pk, by=ada).queue == "openai.tiny"

    def test_of_another_kind_may_not_wait_there(self, ada: User) -> None:
        offering("tiny")
        with pytest.raises(QueueChoiceNotAllowed):
            jobs.submit("image", {"prompt": "a sea"}, owner=ada, by=ada, queue="openai.tiny")


class TestTheFarmsOwnWorker:
    def test_that_is_older_than_a_queue_gets_it_with_its_next_key(self) -> None:
        jobs.ensure_worker("own", queues=["chat"])
        jobs.ensure_worker("own", queues=["chat", "openai"])
        key = jobs.ensure_worker("own", queues=["openai"])
        assert jobs.authenticate(key).queues == ["chat", "openai"]
        assert Queue.objects.filter(name="openai").exists()


class TestACallThatWasLeft:
    def test_is_taken_over_once_and_by_its_owner_alone(self, ada: User) -> None:
        made = jobs.submit("openai", {"path": "completions", "body": {"model": "tiny"}}, owner=ada)
        operations.leave(made.pk, user_id=ada.pk, fingerprint="f")
        assert operations.take_over("f", path="completions", user=farm.user("eve")) is None
        assert operations.take_over("g", path="completions", user=ada) is None
        taken = operations.take_over("f", path="completions", user=ada)
        assert taken is not None
        assert (taken.job_id, taken.model) == (made.pk, "tiny")
        assert operations.take_over("f", path="completions", user=ada) is None
        operations.end_grace(made.pk, is_kept=False)
        assert farm.status(made) == "pending"

    def test_is_not_taken_over_after_a_minute_and_given_up_by_the_next(self, ada: User) -> None:
        first, second = (jobs.submit("openai", {"path": "completions", "body": {}}, owner=ada) for _ in range(2))
        operations.leave(first.pk, user_id=ada.pk, fingerprint="f")
        operations.leave(first.pk + 1000, user_id=ada.pk, fingerprint="of one that is deleted")
        LeftCall.objects.update(left_at=clock.now() - 2 * operations.LASTS)
        assert operations.take_over("f", path="completions", user=ada) is None
        operations.leave(second.pk, user_id=ada.pk, fingerprint="f")
        assert (farm.status(first), farm.status(second)) == ("canceled", "pending")

    def test_that_was_canceled_meanwhile_is_made_anew(self, ada: User) -> None:
        made = jobs.submit("openai", {"path": "completions", "body": {}}, owner=ada)
        operations.leave(made.pk, user_id=ada.pk, fingerprint="f")
        jobs.cancel(made.pk, by=ada)
        assert operations.take_over("f", path="completions", user=ada) is None
