"""A question, answered by a worker with the `chat` handler that asks a real OpenAI-compatible server."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jobfarm_worker import Handlers, Worker
from jobfarm_worker.handlers import chat
from jobs import operations as jobs
from tests import farm
from tests.chat.integration import people
from tests.servers import Server, serve
from tests.worker.unit.outside import Door
from tests.worker.unit.test_worker_models import ModelServer, broken, error, whole

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server() -> Iterator[Server]:
    jobs.sync()
    with serve() as running:
        yield running


@pytest.fixture
def model() -> Iterator[ModelServer]:
    door, model = Door(), ModelServer()
    with door.open():
        door.app = model
        model.url = f"{door.url}/v1"
        yield model


@contextmanager
def working(server: Server, model: ModelServer) -> Iterator[None]:
    """A worker of the farm that asks this model, and does not wait long to ask again."""
    _, key = jobs.create_worker("mo", queues=["chat"])
    handlers = Handlers()
    handlers.add(kind="chat", function=chat.handler(url=model.url, environ={}, delays_s=(0.01,)))
    worker, loop = Worker(server.url, key), asyncio.new_event_loop()
    worker.include(handlers)
    thread = threading.Thread(target=lambda: loop.run_until_complete(worker.run()))
    thread.start()
    try:
        yield
    finally:
        for _ in range(2):
            loop.call_soon_threadsafe(worker.stop)
        thread.join(15)
        assert not thread.is_alive()
        loop.close()


class TestAQuestion:
    def test_is_answered_after_errors_and_a_stream_that_broke(self, server: Server, model: ModelServer) -> None:
        """429 and 500 are asked again by the handler; words that people have read are retried by the farm."""
        model.scripts = [error(429), broken(["Half", " an", " answer."]), error(500), whole(["Light", " is", " bent."])]
        room, [ada] = people.group("ada")
        answer = people.ask(room, ada, "How do lighthouses work?")
        with working(server, model):
            farm.until(lambda: people.stands(answer)[0] == "retrying", what="the broken stream")
            assert people.stands(answer) == ("retrying", "")
            farm.until(lambda: people.stands(answer)[0] == "finished", what="the answer")
        assert people.stands(answer) == ("finished", "Light is bent.")
        answer.refresh_from_db()
        assert (answer.attempt, answer.worker_name) == (2, "mo")
        requests = {"model": "llama3.2", "stream": True, "max_tokens": 1024}
        messages = [{"role": "user", "content": "How do lighthouses work?"}]
        assert [call["messages"] for call in model.requests] == [messages] * 4
        assert all(requests.items() <= call.items() for call in model.requests)
