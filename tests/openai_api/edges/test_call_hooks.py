"""Hooks of an app decide about calls before a job is made of one, and about answers before they are handed out."""

import fcntl
import re
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoDbBlocker

from accounts import operations as accounts
from jobs import operations as jobs
from jobs.models import Job
from openai_api.models import HookDecision
from tests import farm
from tests.openai_api.edges.conftest import Working
from tests.openai_api.model_server import ModelServer, Script, completion, streamed, whole
from tests.servers import Server, Serving

pytestmark = pytest.mark.django_db(transaction=True)
METRICS_TOKEN = "of-metrics" * 4
REMOVED = re.compile(r"removed [-0-9a-f]{36}")


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file: hooks that are to hang do so while somebody has it locked."""
    file = tmp_path_factory.mktemp("guards") / "hang"
    file.touch()
    return file


@pytest.fixture
def hang(hanging: Path) -> Iterator[None]:
    with hanging.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def running(serving: Serving, django_db_blocker: DjangoDbBlocker, hanging: Path) -> Server:
    with django_db_blocker.unblock():
        guards = {"JOBFARM_APPS": "tests.openai_api.guards", "GUARDS_HANG": str(hanging)}
        return serving.having(**guards, JOBFARM_METRICS_TOKEN=METRICS_TOKEN)


@pytest.fixture
def server(running: Server, transactional_db: None) -> Server:
    """The server, whose log says which hooks failed."""
    jobs.sync()
    return running


def ask(http: httpx.Client, text: str, path: str = "chat/completions", **more: Any) -> httpx.Response:
    message = {"messages": [{"role": "user", "content": text}], "input": text, "prompt": text, "max_tokens": 9}
    return http.post(path, json={"model": "tiny", **message, **more})


def text_of(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


def notes(job: Job, ada: User) -> list[str]:
    return [link.text for link in jobs.links(job, viewer=ada) if link.label == "Hook"]


def outcomes(server: Server) -> Counter[str]:
    """How often the hook `guard_call` came to each outcome, as /metrics counts."""
    text = httpx.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"}, timeout=10).text
    counted = re.findall(r'jobfarm_call_hooks_total\{hook="[^"]*guard_call",outcome="(\w+)"\} ([0-9.]+)', text)
    return Counter({outcome: int(float(count)) for outcome, count in counted})


class TestACall:
    @pytest.mark.parametrize("path", ["chat/completions", "responses", "messages"])
    def test_is_refused_in_the_form_of_its_dialect_and_makes_no_job(
        self, http: httpx.Client, working: Working, path: str
    ) -> None:
        with working():
            answer = ask(http, "a forbidden question", path)
        error = answer.json()["error"]
        assert (answer.status_code, error["message"]) == (400, "That word stays outside.")
        assert error["type"] == "invalid_request_error"
        assert error.get("code") == (None if path == "messages" else "call_refused")
        assert not Job.objects.exists()

    def test_reaches_the_model_as_the_hook_changes_it(
        self, http: httpx.Client, model: ModelServer, working: Working, ada: User
    ) -> None:
        model.scripts = [whole(**completion("Hello."))]
        with working():
            answer = ask(http, "x" * 70_000 + " my secret")
        assert text_of(answer) == "Hello."
        assert REMOVED.search(model.requests[0]["messages"][0]["content"][70_000:])
        job = Job.objects.get()
        assert "secret" not in str(jobs.whole_payload(job))
        assert notes(job, ada) == ["tests.openai_api.guards.guard_call changed the call"]

    def test_is_refused_where_a_hook_fails_that_is_required(
        self, http: httpx.Client, server: Server, working: Working
    ) -> None:
        with working():
            answer = ask(http, "break it")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "hook_failed")
        assert answer.headers["Retry-After"] == "5"
        assert "the hook tests.openai_api.guards.guard_call failed for a call" in server.log
        assert not Job.objects.exists()

    @pytest.mark.usefixtures("hang")
    def test_goes_on_past_a_hook_that_is_not_required(
        self, http: httpx.Client, model: ModelServer, working: Working
    ) -> None:
        model.answer = lambda _: whole(object="text_completion", choices=[])
        with working():
            answers = [ask(http, text, "completions") for text in ("break it", "hang there")]
        assert [each.status_code for each in answers] == [200, 200]

    @pytest.mark.usefixtures("hang")
    def test_of_another_address_passes_while_a_hook_hangs_for_many(
        self, http: httpx.Client, model: ModelServer, working: Working
    ) -> None:
        model.answer = lambda _: whole(data=[])
        with working(), ThreadPoolExecutor(64) as pool:
            waiting = [pool.submit(ask, http, "hang there") for _ in range(64)]
            farm.until(lambda: any(each.done() for each in waiting), what="the first that is given up")
            assert ask(http, "a word", "embeddings").status_code == 200
            assert sum(each.done() for each in waiting) < 40  # one that waited behind them would be the 57th or later
            assert {each.result(30).status_code for each in waiting} == {503}

    def test_is_counted_by_what_its_hooks_did(
        self, http: httpx.Client, server: Server, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [whole(**completion("Hello.")), whole(**completion("Hello."))]
        before = outcomes(server)
        with working():
            for text in ("a question", "my secret", "forbidden", "break it"):
                ask(http, text)
        assert outcomes(server) - before == {"passed": 1, "changed": 1, "refused": 1, "failed": 1}

    def test_cannot_be_made_as_a_job_past_the_hooks(self, server: Server, ada: User) -> None:
        _, key = accounts.create_token(ada, name="jobs", scopes=["submit"])
        call = {"path": "chat/completions", "body": {"model": "tiny", "messages": []}}
        answer = httpx.post(
            f"{server.url}/api/v1/jobs", json={"kind": "openai", "payload": call},
            headers={"Authorization": f"Bearer {key}"},
        )  # fmt: skip
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_value"), answer.text


class TestAnAnswer:
    def test_is_refused_for_whoever_reads_it(
        self, http: httpx.Client, model: ModelServer, working: Working, ada: User
    ) -> None:
        model.scripts = [whole(**completion("Something forbidden."))]
        with working():
            answer = ask(http, "a question")
        job = Job.objects.get()
        later = http.get(f"chat/completions/{job.pk}")
        assert (answer.status_code, later.status_code) == (400, 400)
        assert answer.json() == later.json()
        assert answer.json()["error"]["message"] == "That word stays outside."
        assert notes(job, ada) == [
            "tests.openai_api.guards.guard_answer refused the answer: That word stays outside."
        ]  # fmt: skip

    def test_is_changed_once(self, http: httpx.Client, model: ModelServer, working: Working) -> None:
        model.scripts = [whole(**completion("My secret."))]
        with working():
            text = text_of(ask(http, "a question"))
        assert REMOVED.search(text)
        assert text_of(http.get(f"chat/completions/{Job.objects.get().pk}")) == text

    @pytest.mark.usefixtures("hang")
    def test_is_held_back_while_its_hook_fails(self, http: httpx.Client, model: ModelServer, working: Working) -> None:
        model.scripts = [whole(**completion("Never hang."))]
        with working():
            answer = ask(http, "a question")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "hook_failed")
        assert not HookDecision.objects.filter(is_decided=True).exists()

    def test_of_a_stream_comes_when_it_is_whole(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        rest = threading.Event()
        first, *others = streamed("My sec", "ret.").steps
        model.scripts = [Script([first, others[0], rest, *others[1:]])]
        question: Any = [{"role": "user", "content": "a question"}]
        with working(), ThreadPoolExecutor(1) as pool:
            ask = client.chat.completions.create
            chunks = pool.submit(lambda: [*ask(model="tiny", messages=question, stream=True)])
            farm.until(lambda: model.requests, what="the question")
            assert not chunks.done()
            rest.set()
            [chunk] = chunks.result(30)
        assert REMOVED.search(chunk.choices[0].delta.content)
        assert (chunk.object, chunk.choices[0].finish_reason) == ("chat.completion.chunk", "stop")

    def test_of_a_stream_may_be_refused(self, client: openai.OpenAI, model: ModelServer, working: Working) -> None:
        model.scripts = [streamed("forbidden")]
        question: Any = [{"role": "user", "content": "a question"}]
        with working(), pytest.raises(openai.APIError, match="That word stays outside"):
            list(client.chat.completions.create(model="tiny", messages=question, stream=True))

    def test_streams_in_other_dialects_too(
        self, client: openai.OpenAI, claude: anthropic.Anthropic, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [streamed("My sec", "ret."), streamed("My sec", "ret.")]
        question: Any = [{"role": "user", "content": "a question"}]
        with working():
            with client.responses.stream(model="tiny", input="a question") as responding:
                response = responding.get_final_response()
            with claude.messages.stream(model="tiny", max_tokens=9, messages=question) as saying:
                message = saying.get_final_text()
        assert REMOVED.search(response.output_text)
        assert REMOVED.search(message)
        assert client.responses.retrieve(response.id).output_text == response.output_text

    def test_of_a_response_that_is_refused_lets_it_fail(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [whole(**completion("forbidden"))]
        with working():
            made = client.responses.create(model="tiny", input="a question", background=True)
            farm.until(lambda: Job.objects.get().status == "success")
            response = client.responses.retrieve(made.id)
            follow = pytest.raises(openai.BadRequestError, match="stays outside")
            with follow:
                client.responses.create(model="tiny", input="and?", previous_response_id=made.id)
        assert (response.status, response.output) == ("failed", [])
        assert response.error is not None
        assert "That word stays outside." in response.error.message
