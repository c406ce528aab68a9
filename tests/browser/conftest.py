"""A real browser on a real server: headless Chromium by Playwright, uvicorn as a process of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright
from pytest_django import DjangoDbBlocker, Settings

from tests.browser.chromium import ARGUMENTS, CHROMIUM
from tests.browser.farmhands import SOON_MS
from tests.servers import Server, Serving

# What a page says while its server is away; nothing that the page itself did wrong.
SERVER_AWAY = ("WebSocket connection to", "net::ERR_")
expect.set_options(timeout=SOON_MS)  # Playwright's own five seconds are too few where processors are busy


@pytest.fixture(scope="module", autouse=True)
def _orm_beside_playwright() -> Iterator[None]:
    """Playwright's synchronous interface runs a loop in this thread; Django would refuse the ORM there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        yield


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for the files of this folder that run one after another, ended with the last of them: its loop would
    be in the way of asynchronous tests."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def serving(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Serving]:
    """For the files that run one after another; it ends with the last of them, as tests of other folders must not hear
    of it."""
    serving = Serving()
    yield serving
    with django_db_blocker.unblock():
        serving.end()


@pytest.fixture(scope="package")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the servers have their files and static files."""
    return tmp_path_factory.mktemp("farm")


@pytest.fixture(scope="module")
def running(
    request: pytest.FixtureRequest, serving: Serving, place: Path, django_db_blocker: DjangoDbBlocker
) -> Server:
    """The server of a file of tests, with the file's ENVIRONMENT if it has one."""
    with django_db_blocker.unblock():
        return serving.having(**_place(place), **getattr(request.module, "ENVIRONMENT", {}))


@pytest.fixture
def server(running: Server, place: Path, transactional_db: None, settings: Settings) -> Server:
    """The file's server, on an empty farm."""
    settings.MEDIA_ROOT = place / "files"
    return running


def _place(folder: Path) -> dict[str, str]:
    """The environment of a server with this database, and with files and static files in `folder`."""
    at = connection.settings_dict
    user = quote(f"{at['USER']}:{at['PASSWORD']}" if at["PASSWORD"] else at["USER"], safe=":")
    url = f"postgresql://{user}@/{at['NAME']}?host={quote(at['HOST'], safe='')}&port={at['PORT'] or 5432}"
    return {"JOBFARM_DATA": str(folder), "DATABASE_URL": url, "SECRET_KEY": django_settings.SECRET_KEY}


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    """What the pages complained of: errors of scripts, refusals by the content security policy, failed loads.

    None are allowed."""
    problems: list[str] = []
    yield problems
    assert problems == []


Visit = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser, server: Server, complaints: list[str]) -> Iterator[Visit]:
    """Open a page in a browser of its own: `visit("/jobs/", by=user)`; without `by`, nobody is logged in."""
    contexts: list[BrowserContext] = []

    def open_page(path: str, *, by: User | None = None, **options: object) -> Page:
        context = browser.new_context(base_url=server.url, **options)  # type: ignore[arg-type]  # passed on as they are
        contexts.append(context)
        if by is not None:
            context.add_cookies([{"name": "sessionid", "value": _session(by), "url": server.url}])
        page = context.new_page()
        _listen(page, complaints)
        page.goto(path)
        if options.get("java_script_enabled", True) and page.locator("[data-live-args]").count():
            page.wait_for_selector("html[data-live=on]", state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()


def _session(user: User) -> str:
    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value


def _listen(page: Page, complaints: list[str]) -> None:
    def console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not any(word in message.text for word in SERVER_AWAY):
            complaints.append(f"{page.url}: {message.text}")

    page.on("console", console)
    page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
