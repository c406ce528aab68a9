"""Tokens of attempts that end without saying what they used are estimated from what they wrote."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from jobs import operations
from jobs.models import Job
from metering import operations as metering
from metering.models import Reading
from openai_api import domain
from tests import farm
from tests.metering import budgets
from tests.metering.budgets import answer, call, numbers

pytestmark = pytest.mark.django_db

WORDS = 50  # of eight characters: two tokens each
Ending = Callable[[Any, operations.ClaimedJob], object]
ENDINGS: dict[str, Ending] = {
    "a cancel": lambda _, claimed: operations.cancel(claimed.id, by=None),
    "a failure for good": lambda gpu, claimed: farm.fail(gpu, claimed, retryable=False),
    "a time-out": lambda _, claimed: farm.time_out(claimed),
}
RETURNS: dict[str, Ending] = {
    "a loss": lambda _, claimed: farm.lose(claimed),
    "a release": lambda gpu, claimed: operations.release(gpu, claimed.id, claimed.lease),
    "a failure": farm.fail,
}


def chunk(**fields: Any) -> str:
    return json.dumps({"id": "c", "object": "chat.completion.chunk", "choices": [], **fields}) + "\n"


def write(gpu: Any, claimed: operations.ClaimedJob, *texts: str) -> None:
    for seq, text in enumerate(texts):
        operations.write_output(gpu, claimed.id, claimed.lease, seq=seq, text=text)


def words(count: int) -> str:
    return chunk(choices=[{"index": 0, "delta": {"content": "lanterns"}}]) * count


def test_what_was_written_before_any_end_without_usage_is_charged_and_marked(ada: User) -> None:
    budget, gpu = budgets.budget("tokens", 100_000, person=ada), budgets.worker()
    for number, (how, end) in enumerate(ENDINGS.items(), start=1):
        job = call(ada)
        claimed = farm.claim_one(gpu)
        write(gpu, claimed, words(20), words(WORDS - 20))
        end(gpu, claimed)
        used = metering.of_job(job.pk)
        assert used is not None, how
        assert (used.tokens_in, used.tokens_out, used.is_estimated) == (10, 2 * WORDS, True), how
        assert "estimated" in used.sentence
        assert numbers(budget) == (number * (10 + 2 * WORDS), 0), how


def test_of_a_job_that_is_tried_again_each_attempt_counts_by_its_own(ada: User) -> None:
    budget, gpu = budgets.budget("tokens", 100_000, person=ada), budgets.worker()
    job = call(ada)
    for end in RETURNS.values():
        claimed = farm.claim_one(gpu)
        write(gpu, claimed, words(WORDS))
        end(gpu, claimed)
        farm.make_due(job)
    claimed = farm.claim_one(gpu)
    write(gpu, claimed, words(WORDS))
    farm.succeed(gpu, claimed, answer(12, 5))
    readings = Reading.objects.order_by("fence").values_list("tokens_in", "tokens_out", "is_estimated")
    assert [*readings] == [(10, 2 * WORDS, True)] * len(RETURNS) + [(12, 5, False)]
    assert numbers(budget) == (len(RETURNS) * (10 + 2 * WORDS) + 17, 0)


def test_a_usage_that_was_written_is_no_estimate(ada: User) -> None:
    gpu = budgets.worker()
    call(ada)
    claimed = farm.claim_one(gpu)
    write(gpu, claimed, words(3), chunk(usage={"prompt_tokens": 7, "completion_tokens": 4}))
    operations.cancel(claimed.id, by=None)
    assert [*Reading.objects.values_list("tokens_in", "tokens_out", "is_estimated")] == [(7, 4, False)]


def test_of_a_long_output_the_beginning_is_read_and_the_rest_taken_to_be_alike(ada: User) -> None:
    gpu = budgets.worker()
    call(ada)
    claimed = farm.claim_one(gpu)
    write(gpu, claimed, *[words(100)] * 60)
    operations.cancel(claimed.id, by=None)
    [reading] = Reading.objects.all()
    assert reading.tokens_out == pytest.approx(60 * 100 * 2, rel=0.02)
    assert reading.is_estimated


def test_who_wrote_nothing_used_nothing_that_is_known(ada: User) -> None:
    budget, gpu = budgets.budget("tokens", 1000, person=ada), budgets.worker()
    job = call(ada)
    claimed = farm.claim_one(gpu)
    write(gpu, claimed, chunk(choices=[{"index": 0, "delta": {"role": "assistant", "content": ""}}]))
    operations.cancel(job.pk, by=None)
    assert numbers(budget) == (0, 0)
    assert not Reading.objects.get().is_estimated
    assert Job.objects.get().status == "canceled"


@pytest.mark.parametrize(
    ("line", "characters"),
    [
        pytest.param({"choices": [{"index": n, "delta": {"content": "four"}} for n in range(3)]}, 12, id="n"),
        pytest.param({"choices": [{"index": 0, "text": "four"}]}, 4, id="a completion"),
        pytest.param({"choices": [{"delta": {"reasoning": "hm", "refusal": "no"}}]}, 4, id="reasoning"),
        pytest.param({"type": "response.output_text.delta", "delta": "four"}, 4, id="a response"),
        pytest.param({"type": "response.completed", "response": {"usage": None}}, 0, id="its end"),
        pytest.param({"choices": "none", "usage": 7}, 0, id="nonsense"),
    ],
)
def test_the_answer_in_lines_is_counted_without_what_is_around_it(line: Any, characters: int) -> None:
    assert domain.written(f"half a line\n{json.dumps(line)}\n[]\n") == domain.written(json.dumps(line))
    assert domain.written(json.dumps(line)).characters == characters
