"""Whatever a page offers to somebody, they may do: no link and no button leads to a refusal."""

from collections.abc import Iterator

import pytest
from django.test import Client

from tests.effort import turn
from tests.permissions import asking
from tests.permissions.page import Page, presses, target
from tests.permissions.world import World

pytestmark = pytest.mark.django_db
REFUSED = {403, 404, 405}
PEOPLE = ("guest", "other", "mate", "owner", "reader", "staff", "root")


def _browser(who: str, farm: World) -> Client:
    """Of somebody who has logged in as people do: the session of a guest says what they are."""
    client = farm.browsers()[who]
    session = client.session
    session["is_guest"] = who == "guest"
    session.save()
    return client


def _pages(client: Client, farm: World) -> Iterator[tuple[str, str]]:
    """The addresses of pages that this person may look at, with their texts."""
    for pattern in sorted(asking.patterns()):
        if pattern.startswith(("api/", "health", "metrics", "accounts/logout", "accounts/link")):
            continue
        address = asking.address(pattern, farm.names(pattern))
        with asking.undone(client):
            answer = asking.send(client, "GET", address, {})
            if answer.status_code == 200 and answer.headers.get("Content-Type", "").startswith("text/html"):
                yield address, answer.content.decode()


def _refused(client: Client, method: str, address: str, data: dict[str, list[str]]) -> bool:
    with asking.undone(client):
        return asking.send(client, method, address, data).status_code in REFUSED


@pytest.mark.parametrize("who", turn(PEOPLE, of=len(PEOPLE)))
def test_no_link_and_no_button_leads_to_a_refusal(farm: World, who: str) -> None:
    client = _browser(who, farm)
    pages = list(_pages(client, farm))
    opened = {("GET", address) for address, _ in pages}  # answered with a page, and once is enough
    tried: set[tuple[str, ...]] = set()
    refused: list[tuple[str, ...]] = []
    for address, text in pages:
        for offer in _offers(address, text):
            method, to, data = offer
            if data.get("code") == [""]:  # of a game: people type it
                data["code"] = [farm.names("game/")["code"]]
            key = (method, to, *sorted(f"{name}={value}" for name, value in data.items() if "csrf" not in name))
            if key in tried:
                continue
            tried.add(key)
            if key not in opened and _refused(client, method, to, data):
                refused.append((address, method, to, str(data)))
    assert len(tried) > 20
    assert refused == []


def _offers(address: str, text: str) -> Iterator[tuple[str, str, dict[str, list[str]]]]:
    for link in sorted(Page(text).links):
        if to := target(address, link):
            yield "GET", to, {}
    yield from presses(address, text)
