"""One server for the tests of this folder, a model server behind its workers, and the clients of OpenAI before it."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import anthropic
import httpx
import openai
import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoDbBlocker

from accounts import operations as accounts
from jobfarm_worker import Handlers, Worker
from jobfarm_worker.handlers.openai_calls import OpenAICalls
from jobs import operations as jobs
from openai_api import operations
from tests import farm
from tests.forkserver import ROOT
from tests.openai_api import model_server
from tests.openai_api.model_server import ModelServer
from tests.servers import Server, Serving

GRACE_S = 3  # longer than OpenAI's clients wait before they repeat a call for the first time
Working = Callable[..., AbstractContextManager[None]]


@contextmanager
def process_of(server: Server, model: ModelServer, key: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """`jobfarm_worker --handler openai` as a process of its own, until the block ends."""
    known = {**os.environ, "JOBFARM_KEY": key, "JOBFARM_LLM_URL": model.url, **environment}
    command = [sys.executable, "-m", "jobfarm_worker", "--url", server.url, "--handler", "openai"]
    running = subprocess.Popen(command, cwd=ROOT, env=known)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


@pytest.fixture(scope="package")
def serving(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Serving]:
    """For the files that run one after another."""
    serving = Serving()
    yield serving
    with django_db_blocker.unblock():
        serving.end()


@pytest.fixture(scope="module")
def running(serving: Serving, django_db_blocker: DjangoDbBlocker) -> Server:
    """The server of this file's tests."""
    with django_db_blocker.unblock():
        return serving.having(JOBFARM_OPENAI_RETRY_GRACE=str(GRACE_S))


@pytest.fixture
def server(running: Server, transactional_db: None) -> Iterator[Server]:
    """The server, whose log must hold no traceback at the test's end."""
    jobs.sync()
    logged_before = len(running.log)
    yield running
    assert "Traceback" not in running.log[logged_before:], running.log[logged_before:]


@pytest.fixture
def key(ada: User) -> str:
    """Her API token."""
    return accounts.create_token(ada, name="openai", scopes=["submit"])[1]


@pytest.fixture
def client(server: Server, key: str) -> Iterator[openai.OpenAI]:
    """OpenAI's own client, which repeats nothing by itself."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0, timeout=30) as client:
        yield client


@pytest.fixture
def http(client: openai.OpenAI, key: str) -> Iterator[httpx.Client]:
    """A plain client with her token."""
    with httpx.Client(base_url=str(client.base_url), headers={"Authorization": f"Bearer {key}"}, timeout=30) as plain:
        yield plain


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A server that has the model `tiny`."""
    with model_server.serving("tiny") as running:
        yield running


@pytest.fixture
def claude(server: Server, key: str) -> Iterator[anthropic.Anthropic]:
    """Anthropic's own client, which repeats nothing by itself, and sends its key as `x-api-key`."""
    with anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0, timeout=30) as client:
        yield client


@pytest.fixture
def own(model: ModelServer) -> ModelServer:
    """A model server that has messages itself."""
    model.has = {"messages", "messages/count_tokens"}
    return model


@pytest.fixture
def working(server: Server, model: ModelServer, ada: User) -> Working:
    """Runs a worker of the model server inside a block, which begins when its models are offered."""

    @contextmanager
    def at_work(name: str = "mo", **options: Any) -> Iterator[None]:
        _, worker_key = jobs.create_worker(name, queues=["openai"])
        handlers = Handlers()
        handlers.add(kind="openai", function=OpenAICalls(url=model.url, environ={}, delays_s=(0.01,)))
        worker, loop = Worker(server.url, worker_key, **options), asyncio.new_event_loop()
        worker.include(handlers)
        thread = threading.Thread(target=lambda: loop.run_until_complete(worker.run()))
        thread.start()
        try:
            offers(ada, *model.models)
            yield
        finally:
            for _ in range(2):
                loop.call_soon_threadsafe(worker.stop)
            thread.join(15)
            assert not thread.is_alive()
            loop.close()

    return at_work


def offers(user: User, *models: str) -> None:
    """Wait until these models are offered to this person, and no others."""
    farm.until(lambda: [*operations.models(user)] == sorted(models), what=f"the offer of {models}")
