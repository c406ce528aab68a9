"""The inbox in a browser: a source is set up and tested, what comes is seen as it comes, and replayed by hand."""

import json

import httpx
import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from jobs import operations as jobs
from jobs.models import Job
from scheduling.models import ScheduledFunction
from tests import farm
from tests.browser.conftest import Visit
from tests.browser.farmhands import SOON_MS
from tests.servers import Server
from tests.webhook_samples import sample
from tests.webhooks.edges.sender import post, signed
from tests.webhooks.inbox.support import new, pass_time, receive
from webhooks import operations
from webhooks.domain.deliveries import Source
from webhooks.models import Delivery, Rule

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_source_is_set_up_tested_watched_and_replayed(visit: Visit, server: Server, boss: User) -> None:
    page = visit("/inbox/sources/", by=boss)
    row = page.locator("[data-key=sgithub]")
    expect(row).to_contain_text("needs a secret")
    row.get_by_role("link", name="GitHub").click()
    page.get_by_role("button", name="Add the secret").click()
    secret = page.locator("#secret").inner_text()

    page.get_by_role("link", name="Send a test delivery").click()
    page.get_by_role("button", name="Send").click()
    expect(page.locator("h1")).to_contain_text("jobfarm_test")
    expect(page.locator(".delivery-state")).to_contain_text("received")
    expect(page.get_by_role("button", name="Replay")).to_be_hidden()
    pass_time()
    expect(page.locator(".delivery-state")).to_contain_text("ignored", timeout=SOON_MS)
    page.get_by_role("button", name="Replay").click()
    expect(page.locator(".delivery-state")).to_contain_text("received", timeout=SOON_MS)
    pass_time()
    expect(page.locator(".timeline > li")).to_have_count(2, timeout=SOON_MS)

    page.get_by_role("navigation", name="Inbox").get_by_role("link", name="Deliveries").click()
    expect(page.locator("html[data-live=on]")).to_be_attached()
    body = json.loads(sample("github/ping.1.json").body) | {"zen": "<script>alert(1)</script>"}
    with httpx.Client(base_url=server.url) as sender:
        assert post(sender, signed(Source.GITHUB, body, secret, event_type="ping")).status_code == 200
        came = page.locator(".deliveries tbody tr").first
        expect(came).to_contain_text("ping", timeout=SOON_MS)
        pass_time()
        expect(came.locator(".badge")).to_have_text("processed", timeout=SOON_MS)
        wrong = signed(Source.GITHUB, body, "not the secret", event_type="ping", delivery_id="d-2")
        assert post(sender, wrong).status_code == 401
    expect(page.locator("#refusals")).to_contain_text("wrong signature", timeout=SOON_MS)
    came.get_by_role("link").click()
    expect(page.locator(".json")).to_contain_text("<script>alert(1)</script>")
    expect(page.locator(".facts.headers")).to_contain_text("(kept out)")
    expect(page.locator(".entries")).to_contain_text("connected")


def test_many_are_replayed_before_ones_eyes_on_a_phone(visit: Visit, boss: User) -> None:
    operations.keep([new(delivery_id=f"d-{n}") for n in range(120)])
    long = receive({"x" * 300: "y" * 300}, delivery_id="i" * 255, event_type="t" * 255)
    while Delivery.objects.filter(status="received").exists():
        pass_time()
    page = visit("/inbox/?source=github", by=boss, viewport={"width": 390, "height": 900})
    page.get_by_role("button", name="Replay all matching").click()
    page.get_by_role("button", name="Replay 121").click()
    state = page.locator(".replay-state")
    expect(state).to_contain_text("0 of 121")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    while ScheduledFunction.objects.filter(status="pending").exists():
        pass_time()
    expect(state).to_contain_text("121 of 121", timeout=SOON_MS)
    expect(state).to_contain_text("done")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    for path in ("/inbox/", f"/inbox/{long.pk}/", "/inbox/sources/", "/inbox/sources/sandbox_hooks/", "/activity/"):
        page.goto(path)
        over = page.evaluate(
            "[document.documentElement, ...document.querySelectorAll('.card')]"
            ".map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth).filter((over) => over > 0)"
        )
        assert (path, over) == (path, [])


def test_a_delivery_and_its_job_show_each_other_as_they_change(visit: Visit, boss: User) -> None:
    Rule.objects.create(name="deploy main", source="github", event="probe", kind="deploy")
    delivery = receive({"ref": "main"})
    page = visit(f"/inbox/{delivery.pk}/", by=boss)
    expect(page.locator(".starts")).to_have_count(0)
    pass_time()
    expect(page.locator(".starts")).to_contain_text("not started", timeout=SOON_MS)
    farm.kind("deploy")
    page.get_by_role("button", name="Start again").click()
    expect(page.locator(".starts .badge")).to_have_text("pending")
    expect(page.get_by_role("button", name="Start again")).to_have_count(0)
    expect(page.locator("html[data-live=on]")).to_be_attached()
    jobs.cancel(Job.objects.get().pk, by=None)
    expect(page.locator(".starts .badge")).to_have_text("canceled", timeout=SOON_MS)
    page.locator(".starts").get_by_role("link").click()
    expect(page.locator(".belongs-to")).to_have_text(
        f"Started by delivery #{delivery.pk} of GitHub, by the rule deploy main."
    )
