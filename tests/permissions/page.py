"""A page as a browser reads it: where its links lead, and what its forms send."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

_UNSENT = {"submit", "button", "reset", "image", "file"}  # a file that nobody chose


@dataclass
class Form:
    """A form of a page: where it goes, what it sends before anybody typed, and its buttons' names with their values."""

    name: str
    action: str
    method: str
    fields: dict[str, list[str]] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)

    def pressed(self, name: str, value: str) -> dict[str, list[str]]:
        """What is sent when this button is pressed."""
        return self.fields | ({name: [value]} if name else {})

    def add(self, name: str, value: str) -> None:
        """One more field."""
        self.fields.setdefault(name, []).append(value)


@dataclass
class _Select:
    """A list of choices that is being read."""

    form: Form | None
    name: str
    is_multiple: bool
    options: list[tuple[str, bool]] = field(default_factory=list)

    def close(self) -> None:
        chosen = [value for value, is_chosen in self.options if is_chosen]
        if not chosen and not self.is_multiple and self.options:
            chosen = [self.options[0][0]]
        for value in chosen if self.form is not None and self.name else ():
            self.form.add(self.name, value)  # type: ignore[union-attr]  # said above


class Page(HTMLParser):
    """The links and the forms of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.forms: dict[str, Form] = {}
        self._open: list[str] = []
        self._select: _Select | None = None
        self._area: tuple[Form | None, str] | None = None
        self._text: list[str] = []
        self._option: dict[str, str] | None = None
        for form_id, form in _forms(text):  # a field may name a form that comes after it
            self.forms[form_id] = form
        self._count = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep it if it leads anywhere."""
        given = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        elif tag == "form":
            self._open.append(given.get("id") or f"#{self._count}")
            self._count += 1
        elif tag == "option":
            self._end_option()
            self._option, self._text = given, []
        elif "disabled" not in given:
            self._field(tag, given)

    def handle_endtag(self, tag: str) -> None:
        """A form, a list of choices or a text ends."""
        if tag == "form" and self._open:
            self._open.pop()
        elif tag == "option":
            self._end_option()
        elif tag == "select" and self._select is not None:
            self._end_option()
            self._select.close()
            self._select = None
        elif tag == "textarea" and self._area is not None:
            form, name = self._area
            if form is not None and name:
                form.add(name, "".join(self._text).removeprefix("\n"))
            self._area = None

    def handle_data(self, data: str) -> None:
        """The text of a field, perhaps."""
        self._text.append(data)

    def _field(self, tag: str, given: dict[str, str]) -> None:
        form = self.forms.get(given.get("form") or (self._open[-1] if self._open else ""))
        name, kind = given.get("name", ""), given.get("type", "text" if tag == "input" else "submit").lower()
        if tag == "select":
            self._select = _Select(form, name, "multiple" in given)
        elif tag == "textarea":
            self._area, self._text = (form, name), []
        elif form is not None and kind == "submit" and tag in {"button", "input"}:
            form.buttons.append((name, given.get("value", "")))
        elif form is not None and tag == "input" and name and kind not in _UNSENT:
            is_box = kind in {"checkbox", "radio"}
            if not is_box or "checked" in given:
                form.add(name, given.get("value", "on" if is_box else ""))

    def _end_option(self) -> None:
        if self._option is not None and self._select is not None and "disabled" not in self._option:
            value = self._option.get("value", "".join(self._text).strip())
            self._select.options.append((value, "selected" in self._option))
        self._option = None


class _Openings(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, Form]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            name = given.get("id") or f"#{len(self.found)}"
            form = Form(name, given.get("action", ""), given.get("method", "get").lower())
            self.found.append((name, form))


def _forms(text: str) -> list[tuple[str, Form]]:
    return _Openings(text).found


def target(address: str, link: str) -> str | None:
    """Where it leads on this site; None for elsewhere."""
    parts = urlsplit(urljoin(f"http://testserver{address}", link))
    is_here = parts.netloc == "testserver" and parts.scheme in {"http", "https"}
    if not is_here or parts.path.startswith("/static/"):
        return None
    return parts.path + (f"?{parts.query}" if parts.query else "")


def presses(address: str, text: str) -> Iterator[tuple[str, str, dict[str, list[str]]]]:
    """What each button of each form sends: method, address, fields. Nobody logs out."""
    for form in Page(text).forms.values():
        to = target(address, form.action or address)
        if to is None or "logout" in to:
            continue
        for name, value in form.buttons:
            yield (
                form.method.upper(),
                to if form.method == "post" else to.partition("?")[0],
                form.pressed(name, value),
            )
