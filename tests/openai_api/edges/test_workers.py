"""Workers die, and many wait: what the callers notice of it."""

import contextlib
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from django.contrib.auth.models import User
from django.db import connection

from jobs import operations as jobs
from jobs.models import Job, Live
from live import operations as live
from tests import farm
from tests.openai_api import model_server
from tests.openai_api.edges.conftest import Working, offers, process_of
from tests.openai_api.model_server import ModelServer, Script, completion, delta, streamed
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
HELLO: Any = [{"role": "user", "content": "Say hello."}]
CROWD = 100
MOST_THREADS = MOST_CONNECTIONS = 40  # as tests/api/edges/test_crowds.py counts them


@contextlib.contextmanager
def process(server: Server, model: ModelServer) -> Iterator[subprocess.Popen[bytes]]:
    """`jobfarm_worker --handler openai` as a process of its own."""
    _, key = jobs.create_worker("doomed", queues=["openai"])
    with process_of(server, model, key) as running:
        yield running


def kill(worker: subprocess.Popen[bytes]) -> Job:
    """Kill the worker, and let the farm notice it: its job."""
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    job = Job.objects.running().get()
    farm.lose(job)
    return job


def hand_over(job: Job) -> None:
    """Let the backoff and the time for other workers pass, unless they have for somebody."""
    Live.objects.filter(pk=job.pk, lease_secret=None).update(run_at=job.created_at)
    live.touch("work:openai.tiny")


class TestAWorkerThatDies:
    def test_before_the_first_token_is_not_noticed_by_the_caller(
        self, server: Server, client: openai.OpenAI, model: ModelServer, working: Working, ada: User
    ) -> None:
        model.scripts = [Script([delta(role="assistant", content=""), threading.Event()]), streamed("Hel", "lo.")]
        with ThreadPoolExecutor(1) as pool:
            with process(server, model) as worker:
                offers(ada, "tiny")
                calling = pool.submit(_streamed, client)
                farm.until(lambda: model.requests, what="the question to the first worker")
                job = kill(worker)
            with working():
                hand_over(job)
                assert calling.result(30) == "Hello."
        assert Job.objects.get().attempt == 2

    def test_after_it_ends_the_stream_with_an_error_that_names_the_job(
        self, server: Server, client: openai.OpenAI, model: ModelServer, working: Working, ada: User
    ) -> None:
        model.scripts = [Script([delta(content="Hel"), threading.Event()]), streamed("Good", " day.")]
        with process(server, model) as worker:
            offers(ada, "tiny")
            stream = iter(client.chat.completions.create(model="tiny", messages=HELLO, stream=True))
            assert next(stream).choices[0].delta.content == "Hel"
            job = kill(worker)
            with pytest.raises(openai.APIError) as caught:
                next(stream)
        assert caught.value.code == "stream_broken"
        assert f"job {job.pk}" in caught.value.message
        farm.until(lambda: farm.status(job.pk) == "canceled", what="the cancel: nobody waits any more")

    def test_after_it_leaves_a_job_in_the_background_to_another_whose_answer_is_whole(
        self, server: Server, client: openai.OpenAI, model: ModelServer, working: Working, ada: User, key: str
    ) -> None:
        model.scripts = [Script([delta(content="Hel"), threading.Event()]), streamed("Good", " day.")]
        with process(server, model) as worker:
            offers(ada, "tiny")
            made = client.chat.completions.create(
                model="tiny", messages=HELLO, stream=True, extra_headers={"X-Background": "1"}
            )
            stream = iter(made)
            next(stream)
            job = kill(worker)
            with pytest.raises(openai.APIError, match="lost in the middle"):
                next(stream)
        at = f"{client.base_url}chat/completions/{job.pk}"
        head = {"Authorization": f"Bearer {key}"}
        with working():
            hand_over(job)
            answer = httpx.get(at, headers=head, timeout=30)
        assert answer.json()["choices"][0]["message"]["content"] == "Good day."
        resumed = httpx.get(f"{at}/events", headers={**head, "Last-Event-ID": "1.1"}, timeout=30)
        assert (resumed.status_code, resumed.json()["error"]["code"]) == (502, "stream_broken")

    def test_of_a_job_that_failed_for_good_passes_the_servers_last_words_on(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        cut = Script([delta(content="Hel")], is_cut=True)
        model.scripts = [cut]
        with working():
            stream = iter(client.chat.completions.create(model="tiny", messages=HELLO, stream=True))
            assert next(stream).choices[0].delta.content == "Hel"
            with pytest.raises(openai.APIError) as caught:
                next(stream)
        assert caught.value.code == "job_failed"
        assert "The model server failed: " in caught.value.message


class TestManyWhoWait:
    def test_hold_no_thread_and_no_connection_each(
        self, server: Server, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        """Half of them stream. One worker, which works for one at a time, is kept busy meanwhile."""
        first = threading.Event()
        answers = [Script([json.dumps(completion("Hello.")).encode()], headers=model_server.JSON)] * CROWD
        model.scripts = [Script([first, *answers[0].steps], headers=model_server.JSON)]
        with working(), ThreadPoolExecutor(CROWD) as pool:
            busy = pool.submit(client.chat.completions.create, model="tiny", messages=HELLO)
            farm.until(lambda: model.requests, what="the first question")
            calls = [pool.submit(_whole if n % 2 else _streamed, client) for n in range(CROWD - 1)]
            farm.until(lambda: Job.objects.count() == CROWD, what="the calls")
            farm.until(_nobody_reads, what="the rest")
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
                assert cursor.fetchone()[0] < MOST_CONNECTIONS
            assert len(list(Path(f"/proc/{server.pid}/task").iterdir())) < MOST_THREADS
            model.answer = lambda body: streamed("Hello.") if body.get("stream") else answers[0]
            first.set()
            assert busy.result(30).choices[0].message.content == "Hello."
            assert {call.result(120) for call in calls} == {"Hello."}


def _streamed(client: openai.OpenAI) -> str:
    with client.chat.completions.create(model="tiny", messages=HELLO, stream=True, timeout=120) as stream:
        return "".join(choice.delta.content or "" for chunk in stream for choice in chunk.choices)


def _whole(client: openai.OpenAI) -> str:
    answer = client.chat.completions.create(model="tiny", messages=HELLO, timeout=120)
    return answer.choices[0].message.content or ""


def _nobody_reads() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
        return bool(cursor.fetchone()[0] == 0)
