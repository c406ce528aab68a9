"""A batch whose clusters are killed all the time, and steps that run at the same moment."""

import random
from collections import Counter
from functools import partial

import pytest
from django.contrib.auth.models import User

from jobs.models import Job, Worker
from openai_api.domain import batches as domain
from openai_api.models import Batch, Slice
from openai_api.operations import batches, steps
from tests import farm
from tests.effort import share
from tests.openai_api import batching
from tests.openai_api.batching import content, line, text
from tests.scheduling.concurrency.support import keepers, kill_one, until

pytestmark = pytest.mark.django_db(transaction=True)
RNG = random.Random(11)
LINES = share(5_000, of=4)


class TestABatch:
    def test_of_killed_clusters_loses_and_repeats_no_line(self, ada: User) -> None:
        """Processes of both clusters are killed one after the other while the file is checked, while its lines become
        jobs, and while its output is written."""
        worker = batching.offering("tiny")
        batch = batching.made(text(*map(line, range(LINES))), user=ada)
        with keepers("--actions --workers 1", "--actions --workers 1") as clusters:
            killed, seen = 0, ""
            while batch.is_live:
                seen = until(partial(_moved, batch, seen, by=worker), within_s=120, what=_state)
                killed += kill_one(clusters, rng=RNG) is not None
        assert killed > 2  # one for each way that it goes on, of which a quick machine needs few
        lines = content(batch.output_file)
        assert Counter(each["custom_id"] for each in lines) == Counter(f"line-{n}" for n in range(LINES))
        assert [each["response"]["body"] for each in lines] == [{"echo": f"word {n}"} for n in range(LINES)]
        assert Job.objects.count() == LINES
        assert sum(len(part.job_ids) for part in Slice.objects.all()) == LINES
        assert (batch.completed, batch.failed) == (LINES, 0)

    def test_whose_step_runs_many_times_at_once_submits_each_line_once(
        self, ada: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(domain, "LINES_OF_SLICE", 7)
        batching.offering("tiny")
        batch = batching.made(text(*map(line, range(200))), user=ada)
        farm.at_once(*[lambda: steps.step(batch_id=str(batch.pk), chain=0)] * 4)
        batch.refresh_from_db()
        assert (batch.submitted, Job.objects.count()) == (200, 200)
        names = [name for part in Slice.objects.all() for name in part.custom_ids]
        assert names == [f"line-{n}" for n in range(200)]

    def test_that_is_cancelled_while_it_submits_leaves_no_job_that_waits(
        self, ada: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(domain, "LINES_OF_SLICE", 5)
        batching.offering("tiny")
        batch = batching.made(text(*map(line, range(300))), user=ada)

        def cancel() -> None:
            farm.until(lambda: Job.objects.exists() or not batch.is_live)
            batches.cancel(batch.pk)

        farm.at_once(lambda: steps.step(batch_id=str(batch.pk), chain=0), cancel)
        batching.to_the_end(batch)
        assert batch.status == "cancelled"
        assert set(farm.statuses()) == {"canceled"}
        assert len(content(batch.error_file)) == 300


def _moved(batch: Batch, before: str, *, by: Worker) -> str:
    """How the batch stands, if that is not as before; the worker answers some of its jobs meanwhile."""
    batching.answer(by, 300)
    batch.refresh_from_db()
    state = f"{batch.status} {batch.submitted} {batch.completed}"
    return state if state != before else ""


def _state() -> str:
    return str(Batch.objects.values().get())
