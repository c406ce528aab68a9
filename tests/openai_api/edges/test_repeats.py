"""OpenAI's clients repeat a call that took them too long: the job goes on, and the repeat gets its answer."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from jobs.models import Job
from openai_api.models import LeftCall
from tests import farm
from tests.openai_api.edges.conftest import Working
from tests.openai_api.model_server import END, ModelServer, Script, completion, delta, whole

pytestmark = pytest.mark.django_db(transaction=True)
HELLO: Any = [{"role": "user", "content": "Say hello."}]
BODY = {"model": "tiny", "messages": HELLO}
FIRST, AGAIN = ({"X-Stainless-Retry-Count": str(count)} for count in (0, 1))


def whole_text(client: openai.OpenAI) -> str:
    return str(client.chat.completions.create(model="tiny", messages=HELLO).choices[0].message.content)


def streamed_text(client: openai.OpenAI) -> str:
    stream = client.chat.completions.create(model="tiny", messages=HELLO, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream)


def left(http: httpx.Client, body: dict[str, Any] | None = None, **headers: str) -> None:
    """A call whose caller goes away before anything came."""
    with pytest.raises(httpx.ReadTimeout):
        http.post("chat/completions", json=body or BODY, headers={**FIRST, **headers}, timeout=0.5)


@pytest.mark.parametrize("text", [whole_text, streamed_text])
def test_of_a_client_that_gave_up_waiting_takes_the_living_job_over(
    client: openai.OpenAI, model: ModelServer, working: Working, text: Callable[[openai.OpenAI], str]
) -> None:
    rest = threading.Event()
    if text is whole_text:
        [answer] = whole(**completion("Hello.")).steps
        model.scripts = [Script([rest, answer], headers={"content-type": "application/json"})]
    else:
        model.scripts = [Script([rest, delta(content="Hello."), *END])]
    with working(), ThreadPoolExecutor(1) as pool:
        calling = pool.submit(text, client.with_options(timeout=5, max_retries=1))
        farm.until(LeftCall.objects.exists, what="the client's time-out")
        farm.until(lambda: not LeftCall.objects.exists(), what="its repeat")
        rest.set()
        assert calling.result(30) == "Hello."
    assert Job.objects.get().attempt == 1


def test_is_another_call_where_anything_else_is_asked_for(http: httpx.Client, working: Working) -> None:
    with working():
        left(http)
        farm.until(LeftCall.objects.exists, what="that it was left")
        for body, headers in [
            (BODY, FIRST),  # no repeat
            ({**BODY, "temperature": 1}, AGAIN),
            (BODY, {**AGAIN, "X-Requires": "vram>=1"}),
        ]:
            with pytest.raises(httpx.ReadTimeout):
                http.post("chat/completions", json=body, headers=headers, timeout=0.5)
        assert Job.objects.count() == 4


def test_of_a_call_that_somebody_still_waits_for_is_another_call(
    http: httpx.Client, model: ModelServer, working: Working
) -> None:
    rest = threading.Event()
    answers = [whole(**completion("One.")), whole(**completion("Two."))]
    model.scripts = [Script([rest, *each.steps], headers=each.headers) for each in answers]
    with working(concurrency=2), ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(http.post, "chat/completions", json=BODY, headers=headers) for headers in (FIRST, AGAIN)]
        farm.until(lambda: len(model.requests) == 2, what="both questions")
        rest.set()
        texts = {call.result(30).json()["choices"][0]["message"]["content"] for call in calls}
    assert texts == {"One.", "Two."}


def test_that_does_not_come_lets_the_job_be_canceled(http: httpx.Client, model: ModelServer, working: Working) -> None:
    model.scripts = [Script([threading.Event()])]
    with working():
        left(http)
        farm.until(LeftCall.objects.exists, what="that it was left")
        assert not Job.objects.ended("canceled").exists()
        farm.until(lambda: Job.objects.get().status == "canceled", what="the end of the grace")
    assert not LeftCall.objects.exists()
