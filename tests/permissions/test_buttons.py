"""Whatever a page offers to somebody, they may do: no link and no button leads to a refusal."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import pytest
from django.test import Client

from tests.permissions import asking
from tests.permissions.world import World

pytestmark = pytest.mark.django_db
REFUSED = {403, 404, 405}
PEOPLE = ("guest", "other", "mate", "owner", "reader", "staff", "root")


@dataclass
class Form:
    """A form of a page: where it goes, what it holds, and its buttons' names with their values."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)


class Page(HTMLParser):
    """The links and the forms of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.forms: dict[str, Form] = {}
        self._open: list[str] = []
        self._select = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep it if it leads anywhere."""
        given = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        elif tag == "form":
            self._open.append(given.get("id") or f"#{len(self.forms)}")
            self.forms[self._open[-1]] = Form(given.get("action", ""), given.get("method", "get").lower())
        else:
            self._field(tag, given)

    def handle_endtag(self, tag: str) -> None:
        """A form ends."""
        if tag == "form":
            self._open.pop()

    def _field(self, tag: str, given: dict[str, str]) -> None:
        form = self.forms.get(given.get("form") or (self._open[-1] if self._open else ""))
        if tag == "option" and form is not None and self._select:
            form.fields.setdefault(self._select, given.get("value", ""))
        self._select = given.get("name", "") if tag == "select" else self._select if tag == "option" else ""
        if form is None:
            return
        is_submit = tag == "button" and given.get("type", "submit") == "submit"
        if is_submit:
            form.buttons.append((given.get("name", ""), given.get("value", "")))
        elif tag in {"input", "textarea"} and given.get("type") not in {
            "checkbox",
            "radio",
            "submit",
            "file",
        }:
            form.fields.setdefault(given.get("name", ""), given.get("value", ""))


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


def _refused(client: Client, method: str, address: str, data: dict[str, str]) -> bool:
    with asking.undone(client):
        return asking.send(client, method, address, data).status_code in REFUSED


@pytest.mark.parametrize("who", PEOPLE)
def test_no_link_and_no_button_leads_to_a_refusal(farm: World, who: str) -> None:
    client = _browser(who, farm)
    tried: set[tuple[str, ...]] = set()
    refused: list[tuple[str, ...]] = []
    for address, text in list(_pages(client, farm)):
        for offer in _offers(address, text):
            method, target, data = offer
            if data.get("code") == "":  # of a game: people type it
                data["code"] = farm.names("game/")["code"]
            key = (
                method,
                target,
                *sorted(f"{name}={value}" for name, value in data.items() if "csrf" not in name),
            )
            if key in tried:
                continue
            tried.add(key)
            if _refused(client, method, target, data):
                refused.append((address, method, target, str(data)))
    assert len(tried) > 20
    assert refused == []


def _offers(address: str, text: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    page = Page(text)
    for link in sorted(page.links):
        if target := _target(address, link):
            yield "GET", target, {}
    for form in page.forms.values():
        target = _target(address, form.action or address)
        if target is None or "logout" in target:
            continue
        fields = {name: value for name, value in form.fields.items() if name}
        for name, value in form.buttons:
            pressed = fields | ({name: value} if name else {})
            if form.method == "get":
                yield "GET", target.partition("?")[0], pressed
            else:
                yield "POST", target, pressed


def _target(address: str, link: str) -> str | None:
    """Where it leads on this site; None for elsewhere."""
    parts = urlsplit(urljoin(f"http://testserver{address}", link))
    if (
        parts.netloc != "testserver"
        or parts.scheme not in {"http", "https"}
        or parts.path.startswith("/static/")
    ):
        return None
    return parts.path + (f"?{parts.query}" if parts.query else "")
