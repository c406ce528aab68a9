"""Another site's page shows the jobs of a tag by a view token, with the element and the page of docs/api.md."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, expect

from jobs import operations
from jobs.models import ViewToken
from tests import documented, farm
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
SOON_MS = 20_000


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder that another origin serves, and its address."""
    serving = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield tmp_path, f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    thread.join()
    serving.server_close()


def test_shows_a_job_and_the_jobs_of_a_tag_over_a_restart_of_the_farm_until_their_tokens_are_revoked(
    browser: Browser, server: Server, site: tuple[Path, str], ada: User
) -> None:
    operations.sync()
    first = operations.submit("chat", {"prompt": "secret"}, owner=ada, tags=["nightly"])
    operations.submit("chat", {"prompt": "secret"}, owner=ada, tags=["other"])
    one_token, one_key = operations.create_view_token(by=ada, job_id=first.pk, expires_in_s=600)
    tag_token, tag_key = operations.create_view_token(by=ada, tag="nightly", expires_in_s=600)
    text = documented.block("api.md", "<!doctype html>").replace("https://farm.example", server.url)
    text = text.replace('"jfv_..." job="7"', f'"{one_key}" job="{first.pk}"').replace("jfv_...", tag_key)
    folder, address = site
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {server.url}; connect-src {server.url}"
    (folder / "index.html").write_text(f'<meta http-equiv="Content-Security-Policy" content="{policy}">{text}')

    with browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        one, tag = page.locator("job-progress [part=status]").all()
        of_one, of_tag = page.get_by_role("progressbar", name="Progress").all()
        expect(one).to_have_text("Pending", timeout=SOON_MS)
        expect(tag).to_have_text("Pending 1", timeout=SOON_MS)
        me = farm.worker("w1", "chat")
        claimed = farm.claim_one(me)
        operations.heartbeat(me, claimed.id, claimed.lease, progress=0.4, detail="Painting")
        expect(one).to_have_text("In progress · Painting", timeout=SOON_MS)
        expect(of_one).to_have_attribute("value", "0.4")
        server.stop()
        operations.finish(
            me, [operations.Finished(job_id=claimed.id, lease=claimed.lease, outcome="success", result="a picture")]
        )
        second = operations.submit("chat", {"prompt": "secret"}, owner=ada, tags=["nightly"])
        server.start()
        expect(one).to_have_text("Success", timeout=SOON_MS)
        expect(tag).to_have_text("Pending 1 · Success 1", timeout=SOON_MS)
        expect(of_tag).to_have_attribute("value", "0.5")
        page.get_by_role("link", name="Result").click()
        assert '"result": "a picture"' in page.locator("body").inner_text()
        page.go_back()
        expect(tag).to_have_text("Pending 1 · Success 1", timeout=SOON_MS)
        for token in (one_token, tag_token):
            operations.revoke_view_token(token.pk, by=ada)
        operations.cancel(second.pk, by=None)
        expect(tag).to_have_text("Not shown any more", timeout=SOON_MS)
    assert not ViewToken.objects.exists()


def test_a_page_that_shows_more_than_a_browser_has_connections_for_shows_all_of_them_and_may_ask_for_more(
    browser: Browser, server: Server, site: tuple[Path, str], ada: User
) -> None:
    operations.sync()
    jobs = [operations.submit("chat", {"prompt": "secret"}, owner=ada, tags=["nightly"]) for _ in range(8)]
    _, key = operations.create_view_token(by=ada, tag="nightly", expires_in_s=600)
    elements = [f'<job-progress token="{key}" job="{job.pk}"></job-progress>' for job in jobs]
    elements += [f'<job-progress token="{key}"></job-progress>']
    folder, address = site
    module = f'<script type="module" src="{server.url}/static/jobs/job-progress.js"></script>'
    (folder / "index.html").write_text(module + "".join(elements))

    with browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        lines = page.locator("job-progress [part=status]")
        expect(lines).to_have_text(["Pending"] * 8 + ["Pending 8"], timeout=SOON_MS)
        lists = f"(token) => fetch(`{server.url}/api/v1/jobs?token=${{token}}`).then((answer) => answer.status)"
        assert page.evaluate(lists, key) == 200
        me = farm.worker("w1", "chat")
        for claimed in operations.claim(me, limit=8):
            farm.succeed(me, claimed)
        expect(lines).to_have_text(["Success"] * 8 + ["Success 8"], timeout=SOON_MS)
