"""Conversations stay with the worker that began them, as OpenAI's client and two workers of one model meet them."""

from typing import Any

import openai
import pytest
from django.contrib.auth.models import User

from jobs import operations as jobs
from jobs.models import Job
from tests import farm
from tests.openai_api.edges.conftest import Working
from tests.openai_api.model_server import ModelServer, completion, whole

pytestmark = pytest.mark.django_db(transaction=True)
TURNS = 8


def _workers_of(client: openai.OpenAI, model: ModelServer, **options: Any) -> list[str | None]:
    """Who answered each turn of a conversation."""
    before = Job.objects.count()
    messages: list[Any] = [{"role": "system", "content": "Be short. " * 200}]
    for number in range(TURNS):
        model.scripts = [whole(**completion(f"Answer {number}."))]
        messages.append({"role": "user", "content": f"Question {number}?"})
        answer = client.chat.completions.create(model="tiny", messages=messages, **options)
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})
    return [job.worker_name for job in Job.objects.order_by("pk")[before:]]


def test_every_turn_goes_to_the_worker_that_had_the_first(
    client: openai.OpenAI, model: ModelServer, working: Working, ada: User
) -> None:
    with working("one", concurrency=4), working("two", concurrency=4):
        farm.until(lambda: len(jobs.offered_models(ada, away_s=0)["tiny"].workers) == 2)
        for options in ({}, {"prompt_cache_key": "a conversation"}):
            workers = _workers_of(client, model, **options)
            assert (len(workers), len({*workers})) == (TURNS, 1)
