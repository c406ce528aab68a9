"""How full a model server's cache of prompts is, where it says so."""

import pytest

from jobfarm_worker import Handlers
from jobfarm_worker.handlers.openai_calls import OpenAICalls
from tests.openai_api import model_server

VLLM = """# HELP vllm:kv_cache_usage_perc KV-cache usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="a {b} c"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="tiny"} %s
vllm:num_requests_running{engine="0"} 3.0
"""


@pytest.mark.parametrize(
    ("metrics", "share"),
    [
        (VLLM % "0.9571", 0.9), (VLLM % "1.0", 1.0), (VLLM % "9.5e-05", 0.2), (VLLM % "NaN", 0.2),
        ('vllm:gpu_cache_usage_perc{model_name="tiny"} 0.5\n', 0.5), ("llamacpp:kv_cache_usage_ratio 0.31\n", 0.3),
        ("vllm:kv_cache_usage_perc 7\n", 1.0), ("vllm:kv_cache_usage_perc 0.0", 0.0), ("", None), ("{}", None),
    ],
)  # fmt: skip
async def test_is_the_fullest_engine_s_in_tenths(metrics: str, share: float | None) -> None:
    handlers = Handlers()
    with model_server.serving("tiny") as model:
        model.beside["/metrics"] = metrics
        handlers.add(kind="openai", function=OpenAICalls(url=model.url, environ={}))
        assert await handlers.cache_used() == share


async def test_is_not_known_of_one_that_does_not_say() -> None:
    with model_server.serving("tiny") as model:
        calls = OpenAICalls(url=model.url, environ={})
        assert (await calls.cache_used(), await calls.loaded()) == (None, [])
        model.beside["/api/ps"] = '{"models": [{"name": "tiny"}]}'
        assert await calls.loaded() == ["tiny"]
