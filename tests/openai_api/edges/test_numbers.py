"""What /metrics says of models: how soon and how fast they answer, what waits for them and what runs."""

import json
import threading
from typing import Any

import httpx
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import DjangoDbBlocker

from jobs.models import Job
from observing import numbers
from tests import farm
from tests.openai_api.edges.conftest import Working
from tests.openai_api.model_server import ModelServer, Script, completion, delta, whole
from tests.servers import Server, Serving

pytestmark = pytest.mark.django_db(transaction=True)
HELLO: Any = [{"role": "user", "content": "Say hello."}]
TOKEN = "a-token-of-prometheus"


@pytest.fixture(scope="module")
def running(serving: Serving, django_db_blocker: DjangoDbBlocker) -> Server:
    """A server that shows its numbers."""
    with django_db_blocker.unblock():
        return serving.having(JOBFARM_METRICS_TOKEN=TOKEN)


def scraped(server: Server, *, model: str) -> dict[str, float]:
    """The numbers of this model, buckets left out."""
    answer = httpx.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)
    families = text_string_to_metric_families(answer.text)
    samples = (sample for family in families for sample in family.samples if "le" not in sample.labels)
    return {one.name.removeprefix("jobfarm_"): one.value for one in samples if one.labels.get("model_name") == model}


def test_a_stream_is_counted_from_its_request_to_its_first_token_and_by_the_chunks_after_it(
    server: Server, client: openai.OpenAI, model: ModelServer, working: Working
) -> None:
    model.models = ["paced:8b"]
    going = threading.Event()
    usage = json.dumps({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}})
    end = f"data: {usage}\n\ndata: [DONE]\n\n".encode()
    model.scripts = [
        Script([delta(role="assistant"), delta(content="Hel"), going, delta(content="lo"), delta(content="."), end])
    ]
    with working():
        stream = iter(client.chat.completions.create(model="paced:8b", messages=HELLO, stream=True))
        assert "Hel" in {chunk.choices[0].delta.content for chunk in (next(stream), next(stream))}
        of_model = scraped(server, model="paced:8b")
        assert (of_model["num_requests_waiting"], of_model["num_requests_running"]) == (0, 1)
        assert of_model["time_to_first_token_seconds_count"] == 1
        assert "request_time_per_output_token_seconds_count" not in of_model
        going.set()
        assert [chunk.choices[0].delta.content for chunk in stream] == ["lo", ".", None]
        farm.until(lambda: Job.objects.get().status == "success")
    of_model = scraped(server, model="paced:8b")
    assert of_model["time_to_first_token_seconds_count"] == 1
    assert 0 < of_model["time_to_first_token_seconds_sum"] < 30
    assert of_model["request_time_per_output_token_seconds_count"] == 1
    assert 0 <= of_model["request_time_per_output_token_seconds_sum"] < 15
    assert (of_model["prompt_tokens_total"], of_model["generation_tokens_total"]) == (7, 3)


def test_a_whole_answer_counts_its_tokens_alone(
    server: Server, client: openai.OpenAI, model: ModelServer, working: Working
) -> None:
    model.models = ["plain"]
    model.scripts = [whole(**completion("Hello."))]
    with working():
        usage = client.chat.completions.create(model="plain", messages=HELLO).usage
    assert usage is not None
    of_model = scraped(server, model="plain")
    assert of_model["generation_tokens_total"] == usage.completion_tokens
    assert "time_to_first_token_seconds_count" not in of_model


def test_what_a_server_had_cached_is_counted_by_worker_where_it_says_so(
    server: Server, client: openai.OpenAI, model: ModelServer, working: Working
) -> None:
    model.models = ["cached"]
    usage = {"prompt_tokens": 90, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 64}}
    model.scripts = [whole(**completion("One.") | {"usage": usage}), whole(**completion("Two."))]
    with working():
        for _ in range(2):
            client.chat.completions.create(model="cached", messages=HELLO)
    of_model = scraped(server, model="cached")
    assert (of_model["prefix_cache_queries_total"], of_model["prefix_cache_hits_total"]) == (90, 64)
    assert of_model["prompt_tokens_total"] > 90


def test_of_more_caches_than_are_kept_the_ones_used_last_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "MOST_CACHES", 2)
    monkeypatch.setattr(numbers, "_caches", {})
    for worker in ("one", "two", "one", "three"):
        numbers.count_cached("shared", worker, prompt=9, cached=7)
    samples = [sample for family in numbers.PREFIX_CACHE_HITS.collect() for sample in family.samples]
    kept = {s.labels["worker"]: s.value for s in samples if s.name.endswith("_total") and "shared" in s.labels.values()}
    assert kept == {"one": 14, "three": 7}


def test_of_more_models_than_are_kept_the_ones_used_last_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "MOST_MODELS", 2)
    monkeypatch.setattr(numbers, "_models", {})
    for name in ("of a stranger", "used", "of another", "used", "the last"):
        numbers.PROMPT_TOKENS.labels(numbers.label_of_model(name)).inc()
    kept = {sample.labels["model_name"] for family in numbers.PROMPT_TOKENS.collect() for sample in family.samples}
    assert kept >= {"used", "the last"}
    assert not kept & {"of a stranger", "of another"}
