"""What bounds batches: quotas, steps that are lost, what may be made, how long files are kept."""

import random
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now

from jobs import operations as jobs
from jobs.models import Upload, Usage
from openai_api.domain import batches as domain
from openai_api.errors import InvalidCall, TooManyBatches, UnknownBatch, UnknownFile
from openai_api.models import Batch, File
from openai_api.operations import batches, steps
from postgres import clock
from scheduling.errors import SomeFailed
from scheduling.models import ScheduledFunction
from scheduling.registry import find
from tests import farm
from tests.openai_api import batching
from tests.openai_api.batching import line, made, offering, step, text, to_the_end

pytestmark = pytest.mark.django_db


class TestQuotas:
    def test_of_waiting_jobs_let_a_batch_wait_and_leave_half_to_other_calls(
        self, ada: User, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "WAITING_JOBS_PER_OWNER": 8}
        monkeypatch.setattr(domain, "LINES_OF_SLICE", 2)
        worker = offering("tiny")
        batch = step(made(text(*map(line, range(12))), user=ada))
        assert batch.submitted == 4
        assert to_the_end(batch, by=worker).completed == 12

    def test_that_others_use_up_are_noted_and_waited_for(self, ada: User, settings: Any) -> None:
        worker = offering("tiny")
        batch = made(text(*map(line, range(4))), user=ada)
        settings.JOBFARM = {**settings.JOBFARM, "WAITING_JOBS_IN_ALL": 2}
        assert step(batch).submitted == 0
        assert "Quota of the whole farm" in batch.note
        settings.JOBFARM = {**settings.JOBFARM, "WAITING_JOBS_IN_ALL": 100}
        assert to_the_end(batch, by=worker).completed == 4
        assert batch.note == ""

    def test_of_files_let_its_end_wait(self, ada: User, settings: Any) -> None:
        worker = offering("tiny")
        batch = step(made(text(line(0)), user=ada))
        settings.JOBFARM = {**settings.JOBFARM, "FILES_PER_OWNER": 1}
        batching.answer(worker)
        assert step(batch).status == "finalizing"
        assert "files" in batch.note
        settings.JOBFARM = {**settings.JOBFARM, "FILES_PER_OWNER": 5}
        assert step(batch).status == "completed"

    def test_of_batches_refuse_one_too_many(self, ada: User, settings: Any) -> None:
        settings.OPENAI = {**settings.OPENAI, "BATCHES_PER_OWNER": 1}
        offering("tiny")
        made(text(line(0)), user=ada)
        with pytest.raises(TooManyBatches):
            made(text(line(0)), user=ada)

    def test_of_batches_that_are_kept_count_ended_ones_too(
        self, ada: User, bob: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(batches, "MOST_KEPT", 2)
        offering("tiny")
        for _ in range(2):
            batch = made(text(line(0)), user=ada)
            batches.cancel(batch.pk, by=ada)
            assert step(batch).status == "cancelled"
        with pytest.raises(TooManyBatches, match="2 of your batches are kept"):
            made(text(line(0)), user=ada)
        made(text(line(0)), user=bob)


class TestSteps:
    def test_of_another_chain_do_nothing(self, ada: User) -> None:
        offering("tiny")
        batch = made(text(line(0)), user=ada)
        steps.step(batch_id=str(batch.pk), chain=batch.chain + 1)
        batch.refresh_from_db()
        assert batch.status == "validating"

    def test_that_were_lost_are_noticed_and_begun_anew(self, ada: User) -> None:
        offering("tiny")
        batch = made(text(line(0)), user=ada)
        assert steps.mend() == 0
        Batch.objects.update(next_step_at=Now() - timedelta(minutes=3))
        before = ScheduledFunction.objects.count()
        assert steps.mend() == 1
        assert ScheduledFunction.objects.count() == before + 1
        assert steps.mend() == 0
        assert step(batch).status == "in_progress"

    def test_that_ended_once_the_file_was_checked_are_missed_after_minutes_and_not_an_hour(
        self, ada: User, settings: Any
    ) -> None:
        offering("tiny")
        batch = made(text(line(0)), user=ada)
        settings.JOBFARM = {**settings.JOBFARM, "WAITING_JOBS_PER_OWNER": "what no step can read"}
        with pytest.raises(TypeError):
            step(batch)
        batch.refresh_from_db()
        assert batch.status == "in_progress"
        assert batch.next_step_at <= clock.now()

    def test_whose_process_dies_each_time_wait_no_longer_than_their_next_one_is_missed(self) -> None:
        retry = find(steps.step).retry
        assert retry is not None
        waits = [retry.delay_s(failures, rng=random.Random(1)) for failures in range(1, retry.max_attempts)]
        assert max(waits) <= steps.LONGEST_WAIT_S
        assert waits == sorted(waits)

    def test_of_a_batch_that_cannot_be_begun_anew_keep_no_other_from_it(self, ada: User) -> None:
        offering("tiny")
        poisoned, sound = (made(text(line(0)), user=ada) for _ in range(2))
        Batch.objects.filter(pk=poisoned.pk).update(chain=2**31 - 1)
        Batch.objects.update(next_step_at=Now() - timedelta(minutes=3))
        with pytest.raises(SomeFailed, match=str(poisoned.pk)):
            steps.mend()
        sound.refresh_from_db()
        assert sound.chain == 1

    def test_schedule_the_next_one_until_the_end(self, ada: User) -> None:
        worker = offering("tiny")
        batch = made(text(line(0)), user=ada)
        planned = ScheduledFunction.objects.filter(function__endswith="steps.step")
        assert planned.count() == 1
        step(batch)
        assert planned.count() == 2
        to_the_end(batch, by=worker)
        last = planned.count()
        step(batch)
        assert planned.count() == last


class TestMaking:
    def test_refuses_what_makes_no_sense(self, ada: User, settings: Any) -> None:
        for options in (
            {"endpoint": "/v1/images/generations"}, {"endpoint": "embeddings"}, {"window": "24"}, {"window": "8d"},
            {"window": "0h"}, {"metadata": [1]}, {"metadata": {"a": 1}}, {"metadata": {"a" * 65: "b"}},
            {"metadata": {str(n): "" for n in range(17)}},
        ):  # fmt: skip
            with pytest.raises(InvalidCall):
                made(text(line(0)), user=ada, **options)
        settings.JOBFARM = {**settings.JOBFARM, "RETENTION_DAYS": 0}
        with pytest.raises(InvalidCall, match="keeps jobs for 0 days"):
            made(text(line(0)), user=ada)
        assert not Batch.objects.exists()

    def test_takes_files_of_ones_own_that_are_for_batches(self, ada: User, bob: User) -> None:
        other = batching.uploaded(b"x", user=ada, purpose="user_data")
        foreign = batching.uploaded(text(line(0)), user=bob)
        options: Any = {"endpoint": batching.ENDPOINT, "window": "24h", "metadata": None, "user": ada}
        with pytest.raises(InvalidCall, match="user_data"):
            batches.create(input_file_id=other.public_id, **options)
        for unknown in (foreign.public_id, "file-1", "", f"file-{'0' * 32}"):
            with pytest.raises(UnknownFile):
                batches.create(input_file_id=unknown, **options)

    def test_is_seen_by_its_owner_alone(self, ada: User, bob: User) -> None:
        batch = made(text(line(0)), user=ada)
        assert batches.find(batch.public_id, user=ada) == batch
        for public_id, user in (
            (batch.public_id, bob),
            ("batch_1", ada),
            (batch.pk.hex, ada),
            ("batch_" + "z" * 32, ada),
        ):
            with pytest.raises(UnknownBatch):
                batches.find(public_id, user=user)

    def test_keeps_its_input_for_longer_than_its_window(self, ada: User, settings: Any) -> None:
        settings.OPENAI = {**settings.OPENAI, "FILE_DAYS": 0.5}
        batch = made(text(line(0)), user=ada, window="2d")
        assert batch.input_file is not None
        kept = File.objects.get().expires_at
        assert kept >= batch.expires_at + timedelta(days=1)
        assert Upload.objects.get().kept_until == kept


class TestRetention:
    def test_deletes_files_with_their_bytes_and_old_batches(self, ada: User) -> None:
        worker = offering("tiny")
        batch = to_the_end(made(text(line(0)), user=ada), by=worker)
        running = made(text(line(0)), user=ada)
        assert batch.output_file is not None
        stored = batch.output_file.stored_as
        past = Now() - timedelta(days=31)
        File.objects.update(created_at=past, expires_at=Now() - timedelta(days=1))
        Upload.objects.update(created_at=past, kept_until=Now() - timedelta(days=1))
        assert running.input_file is not None
        Upload.objects.filter(pk=running.input_file.pk).update(kept_until=Now() + timedelta(days=1))
        assert farm.retain("OpenAI files") == 2
        assert list(File.objects.values_list("pk", flat=True)) == [running.input_file_id]
        farm.retain()
        assert list(Upload.objects.values_list("pk", flat=True)) == [running.input_file_id]
        assert ScheduledFunction.objects.filter(function__endswith="delete_files", args__names__contains=stored)
        assert Batch.objects.get(pk=batch.pk).output_file is None
        Batch.objects.filter(pk=batch.pk).update(ended_at=past)
        assert farm.retain("OpenAI batches") == 1
        assert list(Batch.objects.all()) == [running]

    def test_keeps_files_that_nobody_used_for_longer_than_uploads(self, ada: User) -> None:
        batching.uploaded(b"x", user=ada)
        Upload.objects.update(created_at=Now() - timedelta(days=3))
        farm.retain()
        assert Upload.objects.exists()


def test_a_file_counts_for_its_owner_once(ada: User) -> None:
    batching.uploaded(b"12345", user=ada)
    jobs.measure_usage()
    assert Usage.objects.get(owner_id=ada.pk).files == 1
