"""Who sees the inbox, and who may change something in it."""

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.test import Client

from live import registry
from live.registry import StateQuery, Viewer
from tests.webhooks.inbox.support import receive
from tests.webhooks.pages.conftest import browser, person
from webhooks import live_queries, operations
from webhooks.domain.deliveries import Source
from webhooks.models import Delivery, SandboxToken, Secret

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture
def pages() -> list[str]:
    """What is to be looked at."""
    delivery = receive()
    found = ["/inbox/", f"/inbox/{delivery.pk}/", f"/inbox/{delivery.pk}/body", "/inbox/replays/", "/inbox/sources/"]
    return [*found, "/inbox/sources/github/", "/inbox/sources/sandbox_hooks/", "/activity/"]


@pytest.fixture
def forms() -> list[str]:
    """What is to be filled in by those who may change something."""
    return ["/inbox/replays/new/", "/inbox/sources/github/send/"]


@pytest.fixture
def buttons() -> list[str]:
    """What changes something."""
    secret, _ = operations.add(Source.GITHUB)
    operations.create_token("box-1")
    delivery = Delivery.objects.first() or receive(delivery_id="d-2")
    found = [f"/inbox/{delivery.pk}/replay/", "/inbox/sources/github/", "/inbox/tokens/", "/inbox/tokens/revoke/"]
    return [*found, f"/inbox/sources/github/secrets/{secret.pk}/retire/"]


def statuses(client: Client, urls: list[str], *, post: bool = False) -> dict[str, int]:
    """How each address answers."""
    data = {"grace": "0", "sandbox": "box-1", "secret": ""}
    return {url: (client.post(url, data) if post else client.get(url)).status_code for url in urls}


def test_nobody_is_asked_to_log_in(pages: list[str], forms: list[str]) -> None:
    for url in pages + forms:
        answer = Client().get(url)
        assert (answer.status_code, answer.headers["Location"].partition("?")[0]) == (302, "/accounts/login/")


def test_a_member_finds_nothing(pages: list[str], forms: list[str], buttons: list[str]) -> None:
    member = browser(User.objects.create_user("ada"))
    assert set(statuses(member, pages + forms).values()) == {404}
    assert set(statuses(member, buttons, post=True).values()) == {404}
    assert 'href="/inbox/"' not in member.get("/jobs/").content.decode()


def test_who_may_look_sees_no_button_and_changes_nothing(
    watcher: Client, pages: list[str], forms: list[str], buttons: list[str]
) -> None:
    assert set(statuses(watcher, pages).values()) == {200}
    assert set(statuses(watcher, [*forms, "/inbox/replays/1/stop/"]).values()) <= {404, 405}
    for url in [url for url in pages if not url.endswith("/body")]:
        page = watcher.get(url).content.decode().partition("<main")[2]
        assert 'method="post"' not in page, url
    assert set(statuses(watcher, buttons, post=True).values()) == {404}
    assert Delivery.objects.get().status == "received"
    assert [secret.retired_at for secret in Secret.objects.all()] == [None]
    assert [token.revoked_at for token in SandboxToken.objects.all()] == [None]


def test_who_may_change_may_do_all_of_it(
    operator: Client, pages: list[str], forms: list[str], buttons: list[str]
) -> None:
    assert set(statuses(operator, pages + forms).values()) == {200}
    assert set(statuses(operator, buttons, post=True).values()) <= {200, 302}
    assert 'href="/inbox/"' in operator.get("/jobs/").content.decode()


def test_a_button_needs_the_csrf_token(buttons: list[str]) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    assert set(statuses(client, buttons, post=True).values()) == {403}


def test_a_live_part_is_for_those_who_may_look() -> None:
    given = {
        "delivery": {"delivery_id": 1}, "webhook-source": {"source": "jira"},
        "webhook-secret": {"secret_id": 1, "source": "jira"}, "webhook-replay": {"first": 1},
        "delivery-badge": {"delivery_id": 1},
    }  # fmt: skip
    declared = [query for query in vars(live_queries).values() if isinstance(query, StateQuery)]
    names = [query.name for query in declared if query is not live_queries.delivery_jobs]
    assert len(names) == 11
    nobody, member = Viewer(user=AnonymousUser()), Viewer(user=User.objects.create_user("ada"))
    watcher = Viewer(user=person("wanda", "view_delivery"))
    for name in names:
        query = registry.find(name)
        arguments = query.checked(given.get(name, {}))
        assert query.audience(member, arguments) is None
        assert query.audience(nobody, arguments) is None
        assert query.audience(watcher, arguments) == "operator"


def test_no_page_is_kept_by_a_cache(operator: Client, pages: list[str]) -> None:
    assert all("no-store" in operator.get(url).headers["Cache-Control"] for url in pages)


@pytest.mark.parametrize(
    "url",
    ["/inbox/999/", "/inbox/999/body", "/inbox/99999999999999999999/", "/inbox/replays/999/", "/inbox/sources/paypal/",
     "/inbox/sources/paypal/send/", "/activity/?before=x",
     "/activity/?before=2026-01-01T00:00:00_9999999999999999999999"],
)  # fmt: skip
def test_what_there_is_not_is_not_there(operator: Client, url: str) -> None:
    assert operator.get(url).status_code == 404


@pytest.mark.parametrize("url", ["/inbox/999/replay/", "/inbox/replays/999/stop/", "/inbox/tokens/revoke/",
                                 "/inbox/sources/jira/secrets/999/retire/"])  # fmt: skip
def test_a_button_of_what_there_is_not_is_not_there(operator: Client, url: str) -> None:
    assert operator.post(url, {"grace": "0", "sandbox": "none"}).status_code == 404
