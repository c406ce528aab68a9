"""Both channel layers, and a hub on each."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import redis
from pytest_django import Settings

from live import configuration, hub
from tests.live.integration import support
from tests.ports import free_port


@pytest.fixture(autouse=True)
def _fresh_reads() -> None:
    for brake in (support.reads, support.verdicts):
        brake.__init__()  # type: ignore[misc]  # the queries hold on to these objects


@pytest.fixture(autouse=True)
def _test_templates(settings: Settings) -> None:
    options = settings.TEMPLATES[0]["OPTIONS"]
    loaders = [
        ("django.template.loaders.locmem.Loader", support.TEMPLATES),
        "django.template.loaders.app_directories.Loader",
    ]
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "APP_DIRS": False, "OPTIONS": {**options, "loaders": loaders}}]


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis of our own, that forgets everything at its end."""
    port = free_port()
    with running_redis(port, tmp_path_factory.mktemp("redis")):
        yield f"redis://127.0.0.1:{port}/0"


class running_redis:  # noqa: N801  # used like a function
    """A block with a Redis on this port, answering at its beginning and gone at its end."""

    def __init__(self, port: int, folder: Path) -> None:
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        self._command = [*command, "--loglevel", "warning"]
        self._port = port

    def __enter__(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        retry = redis.retry.Retry(redis.backoff.ConstantBackoff(0.05), 200)
        with redis.Redis(port=self._port, retry=retry, retry_on_error=[redis.ConnectionError]) as client:
            client.ping()

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=10)


@pytest.fixture(params=["notify", "redis"])
def layer(request: pytest.FixtureRequest, settings: Settings) -> str:
    """Each of the two channel layers in turn."""
    url = request.getfixturevalue("redis_url") if request.param == "redis" else None
    settings.CHANNEL_LAYERS = configuration.channel_layers(url)
    return str(request.param)


@pytest_asyncio.fixture
async def here() -> AsyncIterator[hub.Hub]:
    """This loop's hub, on the layer that is set."""
    running = hub.current()
    await running.ready()
    yield running
    await running.stop()
