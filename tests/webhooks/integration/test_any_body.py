"""Whatever of a body is left out, null or of another type: its delivery is processed, ignored or rejected with the name
of a field, and nothing that an event left out is lost of what another one said."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from django.db import transaction

from tests.effort import turn
from tests.webhook_samples import Sample, routed, samples, tables
from tests.webhooks.integration.variants import (
    GONE,
    OTHERS,
    Path,
    Variant,
    fields,
    of_other_types,
    variant,
    without_two,
)
from webhooks.domain.deliveries import Source
from webhooks.domain.parts import ABSENT, ANY, OBJECT, OBJECTS, Kind, Part
from webhooks.errors import BadEnvelope, BadPayload
from webhooks.handlers import registry
from webhooks.handlers.registry import Event
from webhooks.models import Activity
from webhooks.sources import configs
from webhooks.sources.requests import Request, Verified

pytestmark = pytest.mark.django_db

HANDLED = [one for one in routed() if registry.find(one.source, one.type)]
ENDS = {"processed", "ignored", "rejected"}
BOOKKEEPING = {
    "id", "first_seen_at", "last_seen_at", "state_key", "state_at", "field_keys", "phase_key", "model_key",
    "folder_key", "sandbox_key", "document",
}  # fmt: skip
# What a sender's envelope is read from: its type, id and time matter whatever a handler sees.
ENVELOPE = ("action", "created", "event", "hook_event_name", "id", "timestamp", "type", "webhookEvent")
TOP_LEVEL: list[Any] = [
    None, True, 7, 0.5, "text", "", [], {}, [[]], [None], ["text"], [{}], {"a": None}, {"": {}},
    *({name: {}} for name in ("data", "issue", "comment", "page", "repository", "session_id", "items")),
]  # fmt: skip


# All that handlers cannot do without, by the beginning of the event's type; of what is needed its holders are too.
NEEDED = {
    "github": {
        "issue": "issue issue.id",
        "pull_request": "pull_request pull_request.id",
        "pull_request_review.": "review review.id",
        "push": "ref after repository repository.id",
        "deployment": "deployment deployment.id",
        "deployment_status": "deployment_status deployment_status.id",
        "release": "release",
        "create": "ref",
        "delete": "ref",
        "workflow_run.completed": "workflow_run",
        "repository": "repository repository.id",
    },
    "jira": {"jira:": "issue issue.id", "comment": "comment comment.id"},
    "confluence": {"page": "page page.id", "blog": "blog blog.id", "comment": "comment comment.id"},
    "stripe": {
        "customer": "data data.object data.object.id",
        "invoice": "data data.object data.object.id",
        "checkout": "data data.object",
        "payout": "data data.object",
        "charge": "data data.object",
    },
    "clerk": {"": "data data.id"},
    "sandbox_hooks": {"": "session_id"},
    "sandbox_completion": {"": "data data.job_id data.attempt"},
    "sandbox_telemetry": {"": "items"},
}
# One of several fields is enough: an address of the site, an id or a name of a tool. Or no object is there at all.
NEEDED_OF_SEVERAL = {"issue.self", "comment.self", "tool_use_id", "body"}


def needed(sample: Sample) -> set[str]:
    """What a body like this one needs, as names with full stops."""
    fitting = [prefix for prefix in NEEDED[sample.source] if sample.type.startswith(prefix)]
    return set(NEEDED[sample.source][max(fitting, key=len)].split()) if fitting else set()


Ask = tuple[str, Kind[Any]]


class Reader:
    """What a handler gets to see of an event's body: two bodies in which that is the same are handled the same."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._asks: dict[tuple[str, str], list[Ask]] = {}

    def asks(self, event: Event) -> list[Ask]:
        """What a handler asks a body for."""
        key = event.source, event.type
        if key not in self._asks:
            found: dict[Any, Ask] = {}
            with self._monkeypatch.context() as patched, undone():
                for name in ("look", "need"):
                    patched.setattr(Part, name, _spy(getattr(Part, name), found))
                outcome(event)
            self._asks[key] = list(found.values())
        return self._asks[key]

    def seen(self, event: Event) -> tuple[str, ...]:
        return event.type, str(event.occurred_at), *(_read_of(event.body, *ask) for ask in self.asks(event))

    def may_matter(self, event: Event, path: Path) -> bool:
        """Whether a place is, holds or is within something that a handler asks for; or is read with the envelope."""
        name = ".".join(map(str, path if event.source != "sandbox_telemetry" else ("items", 0, *path))) + "."
        paths = (f"{ask}." for ask, _ in self.asks(event))
        return name.rstrip(".") in ENVELOPE or any(name.startswith(ask) or ask.startswith(name) for ask in paths)


def _spy(real: Any, found: dict[Any, Ask]) -> Any:
    def spy(part: Part, path: str, kind: Any) -> Any:
        found[part._named(path), id(kind)] = part._named(path), kind
        return real(part, path, kind)

    return spy


def _read_of(body: Any, path: str, kind: Kind[Any]) -> str:
    """What an ask finds. Of an object only that it is there, as a handler asks for its fields too; all of it where it
    is read as a whole."""
    before, _, after = path.partition(".0.")
    if after:
        items = Part(body, unread=[]).get(before, OBJECTS)
        return _read_of(items[0], after, kind) if items else ""
    found = Part(body, unread=[]).look(path, kind)
    if kind in (OBJECT, OBJECTS):
        return "" if found is ABSENT or found is None else str(bool(found))
    whole = Part(body, unread=[]).look(path, ANY)
    return f"{found!r} {whole if isinstance(whole, dict) else ''}"


@contextmanager
def undone() -> Iterator[None]:
    """What is written here is taken back."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def delivered(sample: Sample, body: Any) -> Event | BadEnvelope:
    """The event that a body comes to by its sender's envelope, or why it comes to none."""
    source = Source(sample.source)
    headers = {"x-github-event": sample.type.partition(".")[0], "webhook-id": f"msg_{sample.n}", "svix-id": "msg_1"}
    as_it_comes = usual(sample)
    query = {"event": sample.type} if source is Source.CONFLUENCE and "event" not in as_it_comes.body else {}
    request = Request(headers=headers, body=b"", query=query)
    verified = Verified(key_id=1, signed_at=as_it_comes.occurred_at)
    try:
        envelope = configs.CONFIGS[source].envelope(request, body, verified=verified)
    except BadEnvelope as error:
        return error
    if source is Source.SANDBOX_TELEMETRY:
        body = {"items": body if isinstance(body, list) else [body]}
    occurred_at = envelope.occurred_at or as_it_comes.occurred_at
    return replace(as_it_comes, type=envelope.event_type, body=body, occurred_at=occurred_at, unread=[])


@cache
def usual(sample: Sample) -> Event:
    """The event of a sample as it is, made once: its body is parsed."""
    return sample.event()


def outcome(event: Event) -> tuple[str, str]:
    """How a delivery of this event ends, and the field that it was rejected for; what is raised here would be retried
    for hours, and then be dead."""
    handler = registry.find(event.source, event.type)
    if handler is None:
        return "ignored", ""
    try:
        note = handler(event)
    except BadPayload as error:
        return "rejected", error.field if error.field in error.message else "nothing"
    assert note is None or note.endswith(".")
    return ("processed" if note is None else "ignored"), ""


class Check:
    """Deliveries of variants of one sample; what a handler has seen once is not handed to it again."""

    def __init__(self, sample: Sample, reader: Reader) -> None:
        self.sample, self.body = sample, document(sample)
        self.reader, self._done, self._needed = reader, set[Any](), needed(sample)

    def sees(self, one: Variant) -> tuple[str, ...] | None:
        """Deliver a body; what its handler sees of it, or None if it never gets to one."""
        event = delivered(self.sample, one.body)
        if isinstance(event, BadEnvelope):
            assert event.reason
            return None
        seen = self.reader.seen(event)
        if seen not in self._done:
            self._done.add(seen)
            self._handle(event, one)
        return seen

    def _handle(self, event: Event, one: Variant) -> None:
        """Within the test's transaction, on what the variants before it left: half of the statements."""
        what = f"{self.sample.file}: {one}"
        try:
            ended, refused = outcome(event)
        except Exception as error:
            raise AssertionError(what) from error
        assert ended in ENDS, what
        assert ended != "rejected" or refused in self._needed | NEEDED_OF_SEVERAL, what
        if event.type == self.sample.type and any(name in self._needed and to is GONE for name, to in one.named()):
            assert ended == "rejected", what


def document(sample: Sample) -> Any:
    """The body as it comes, before telemetry is put into a list."""
    return json.loads(sample.body)


class TestABody:
    def test_ends_well_whatever_is_left_out_null_or_of_another_type(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is rejected for what it needs alone. What a handler does not see is left out and changed as one: what does
        not matter as a whole does not in parts. Other types and pairs are tried on the longest body of each type."""
        longest, reader = of_each_handler(), Reader(monkeypatch)
        for sample in turn(HANDLED, of=3):
            with undone():
                self._vary(Check(sample, reader), is_whole=sample in longest)

    def _vary(self, check: Check, *, is_whole: bool) -> None:
        whole, event = check.sees(variant(check.body)), usual(check.sample)
        may_matter = [path for path in fields(check.body) if check.reader.may_matter(event, path)]
        seen = {path: check.sees(variant(check.body, (path, GONE))) for path in may_matter}
        matters = [path for path, found in seen.items() if found != whole or path in {(name,) for name in ENVELOPE}]
        rest = _outermost(path for path in fields(check.body) if path not in seen)
        for to in (GONE, None, *OTHERS):
            assert check.sees(variant(check.body, *((path, to) for path in rest))) == whole
        if is_whole:
            for one in (*of_other_types(check.body, matters), *without_two(check.body, matters)):
                check.sees(one)

    def test_ends_well_whatever_it_is_and_however_deep(self) -> None:
        deep: Any = 1
        for _ in range(48):
            deep = {"a": [deep]}
        for sample in of_each_handler():
            whole = usual(sample)
            for body in (*TOP_LEVEL, *({**whole.body, name: deep} for name in whole.body)):
                event = delivered(sample, body)
                with undone():
                    assert isinstance(event, BadEnvelope) or outcome(event)
                    assert outcome(replace(whole, body=body, unread=[]))[0] in ENDS

    def test_that_a_sender_really_sends_is_read_to_the_last_field(self) -> None:
        for sample in HANDLED:
            event = sample.event()
            with undone():
                outcome(event)
            assert event.unread == [], sample.file


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Those of these places, holders first, that are within no other, and in no list: changed there it is another."""
    found: dict[Path, None] = {}
    for path in paths:
        within = any(path[:length] in found for length in range(1, len(path)))
        if not within and all(isinstance(step, str) for step in path):
            found[path] = None
    return list(found)


Row = dict[str, Any]
Rows = dict[tuple[str, str], Row]


def rows(kinds: Iterable[type[Any]]) -> Rows:
    """The rows of these tables as people see them."""
    return {
        (kind.__name__, row["external_id"]): {name: row[name] for name in row.keys() - BOOKKEEPING}
        for kind in kinds
        for row in (found | found.get("document", {}) for found in kind.objects.values())
    }


def difference(one: Rows, other: Rows) -> list[str]:
    """The columns of rows of the first that are not as in the second."""
    return [
        f"{table}.{name} is {other.get((table, key), {}).get(name)!r}, was {value!r}"
        for (table, key), row in one.items()
        for name, value in row.items()
        if other.get((table, key), {}).get(name) != value
    ]


def of_each_handler() -> list[Sample]:
    """The longest sample of each handler and what it needs: it has the most fields."""
    longest: dict[Any, Sample] = {}
    for sample in HANDLED:
        key = registry.find(sample.source, sample.type), frozenset(needed(sample))
        if len(sample.body) > len(longest.setdefault(key, sample).body):
            longest[key] = sample
    return list(longest.values())


class TestAPart:
    def test_takes_nothing_away_whenever_it_comes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A body without one of its fields: after the whole one, twice, the rows are those of the whole one; before it
        too."""
        reader = Reader(monkeypatch)
        for sample in turn(of_each_handler(), of=3):
            self._leave_out(sample, reader)

    def _leave_out(self, sample: Sample, reader: Reader) -> None:
        body, done = document(sample), set[Any]()
        whole = delivered(sample, body)
        assert isinstance(whole, Event)
        for path in fields(body):
            if not reader.may_matter(whole, path):
                continue
            one = variant(body, (path, GONE))
            part = delivered(sample, one.body)
            if isinstance(part, BadEnvelope) or not _says_less(one):
                continue
            if (seen := reader.seen(part)) not in done:
                done.add(seen)
                _compare(whole, part, f"{sample.file}: {one}")


def _compare(whole: Event, part: Event, what: str) -> None:
    written, expected = _written(whole)
    with undone():
        outcome(_again(whole, 0))
        outcome(_again(part, 1))
        after = rows(written)
        outcome(_again(part, 1))
        assert difference(after, rows(written)) == [], what
    with undone():
        outcome(_again(part, 1))
        outcome(_again(whole, 0))
        reverse = rows(written)
    assert difference(expected, after) == [], what
    assert (difference(after, reverse), reverse.keys()) == ([], after.keys()), what


_known: dict[str, tuple[list[type[Any]], Rows]] = {}


def _written(whole: Event) -> tuple[list[type[Any]], Rows]:
    """The tables that an event writes, and their rows."""
    if whole.delivery_id not in _known:
        with undone():
            outcome(_again(whole, 0))
            found = [table for table in tables() if table is not Activity and table.objects.exists()]
            _known[whole.delivery_id] = found, rows(found)
    return _known[whole.delivery_id]


def _says_less(one: Variant) -> bool:
    """Not without an item of a list, or a part of a name: then there is another list or name, and not less."""
    [(path, _)] = one.changes
    return isinstance(path[-1], str) and path[-1] != "displayName" and "tool_input" not in path[:-1]


def _again(event: Event, n: int) -> Event:
    """The event as another delivery."""
    return replace(event, pk=event.pk * 10 + n, delivery_id=f"{event.delivery_id} {n}", unread=[])


def test_every_sample_with_a_handler_is_here() -> None:
    assert {one.source for one in HANDLED} == set(Source)
    assert len(HANDLED) > 100
    assert {one.source for one in of_each_handler()} == set(Source)
    assert {one.file for one in samples()} >= {one.file for one in HANDLED}
