"""Whatever of a body is left out, null or of another type: its delivery is processed, ignored or rejected with the name
of a field, and nothing that an event left out is lost of what another one said."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from django.db import transaction

from tests.webhook_samples import Sample, routed, samples, tables
from tests.webhooks.integration.variants import (
    GONE,
    OTHERS,
    Path,
    Variant,
    of_other_types,
    variant,
    without,
    without_two,
)
from webhooks.domain.names import Source
from webhooks.domain.payloads import base
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
_HANDLED_ELSEWHERE: set[Any] = {None}
# What a sender's envelope is read from: its type, id and time matter whatever a handler sees.
ENVELOPE = ("action", "created", "event", "hook_event_name", "id", "timestamp", "type", "webhookEvent")
TOP_LEVEL: list[Any] = [
    None, True, 7, 0.5, "text", "", [], {}, [[]], [None], ["text"], [{}], {"a": None}, {"": {}},
    *({name: {}} for name in ("data", "issue", "comment", "page", "repository", "session_id", "items")),
]  # fmt: skip


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[[Event], tuple[str, ...]]:
    """What a handler gets to see of an event's body: two bodies in which that is the same are handled the same."""
    seen: dict[tuple[str, str], list[type[base.Payload]]] = {}
    real = base.read

    def types(event: Event) -> list[type[base.Payload]]:
        found: list[type[base.Payload]] = []

        def spy(model: Any, body: object, **options: Any) -> Any:
            found.append(model)
            return real(model, body, **options)

        with monkeypatch.context() as patched, undone():
            patched.setattr(base, "read", spy)
            outcome(event)
        return found

    def fingerprint(event: Event) -> tuple[str, ...]:
        key = event.source, event.type
        if key not in seen:
            seen[key] = types(event)
        return event.type, str(event.occurred_at), *(_shown(model, event.body, real) for model in seen[key])

    return fingerprint


def _shown(model: type[base.Payload], body: object, read: Any) -> str:
    try:
        return str(read(model, body).model_dump_json(exclude_unset=True))
    except BadPayload as error:
        return error.message


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
        envelope = configs.config_of(source).envelope(request, body, verified=verified)
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


def outcome(event: Event) -> str:
    """How a delivery of this event ends; what is raised here would be retried for hours, and then be dead."""
    handler = registry.find(event.source, event.type)
    if handler is None:
        return "ignored"
    try:
        note = handler(event)
    except BadPayload as error:
        return "rejected" if error.field and error.field in error.message else "rejected without a field"
    assert note is None or note.endswith(".")
    return "processed" if note is None else "ignored"


class Check:
    """Deliveries of variants of one sample; what a handler has seen once is not handed to it again."""

    def __init__(self, sample: Sample, read: Any) -> None:
        self.sample, self.body = sample, document(sample)
        self._read, self._done = read, set[Any]()

    def sees(self, one: Variant, *, as_other: Any = None) -> tuple[str, ...] | None:
        """Deliver a body; what its handler sees of it, or None if it never gets to one. `as_other`: what stands for it,
        if that was handled with another sample."""
        event = delivered(self.sample, one.body)
        if isinstance(event, BadEnvelope):
            assert event.reason
            return None
        seen: tuple[str, ...] = self._read(event)
        if seen not in self._done and (as_other is None or as_other not in _HANDLED_ELSEWHERE):
            self._done.add(seen)
            _HANDLED_ELSEWHERE.add(as_other)
            self._handle(event, one)
        return seen

    def _handle(self, event: Event, one: Variant) -> None:
        try:  # within the test's transaction, on what the variants before it left: half of the statements
            ended = outcome(event)
        except Exception as error:
            raise AssertionError(f"{self.sample.file}: {one}") from error
        assert ended in ENDS, f"{self.sample.file}: {one}"


def document(sample: Sample) -> Any:
    """The body as it comes, before telemetry is put into a list."""
    return json.loads(sample.body)


class TestABody:
    def test_ends_well_whatever_is_left_out_null_or_of_another_type(self, read: Any) -> None:
        """What a handler does not see is left out and changed as one: what does not matter as a whole does not in
        parts. A pair that a handler was given with another sample it need not be given again, but has to be read."""
        for sample in HANDLED:
            with undone():
                self._vary(Check(sample, read))

    def _vary(self, check: Check) -> None:
        sample = check.sample
        whole = check.sees(variant(check.body))
        seen = {one.changes[0][0]: check.sees(one) for one in without(check.body)}
        seen.update({(name,): None for name in ENVELOPE if (name,) in seen})
        matters = [path for path, found in seen.items() if found != whole]
        rest = [path for path in seen if _is_outermost(path, seen, whole)]
        for to in (GONE, None, *OTHERS):
            assert check.sees(variant(check.body, *((path, to) for path in rest))) == whole
        for one in of_other_types(check.body, matters):
            check.sees(one)
        for one in without_two(check.body, matters):
            pair = registry.find(sample.source, sample.type), *(path for path, _ in one.changes)
            check.sees(one, as_other=pair)

    def test_ends_well_whatever_it_is(self) -> None:
        for sample, top in itertools.product(HANDLED, TOP_LEVEL):
            event = delivered(sample, top)
            with undone():
                assert isinstance(event, BadEnvelope) or outcome(event)
                assert outcome(replace(usual(sample), body=top, unread=[])) in ENDS

    def test_ends_well_nested_a_hundred_deep(self) -> None:
        deep: Any = 1
        for _ in range(48):
            deep = {"a": [deep]}
        for sample in HANDLED:
            whole = usual(sample)
            for name in whole.body:
                with undone():
                    assert outcome(replace(whole, body={**whole.body, name: deep})) in ENDS

    def test_that_a_sender_really_sends_is_read_to_the_last_field(self) -> None:
        for sample in HANDLED:
            event = sample.event()
            with undone():
                outcome(event)
            assert event.unread == [], sample.file


def _is_outermost(path: Path, seen: dict[Path, Any], whole: Any) -> bool:
    """Whether it does not matter, and nothing around it is in the way: that it goes as well, or is a list."""
    around = [path[:length] for length in range(1, len(path))]
    is_field = all(isinstance(part, str) for part in path)
    return is_field and seen[path] == whole and all(seen[other] != whole for other in around)


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
    """The longest sample of each handler: it has the most fields."""
    longest: dict[Any, Sample] = {}
    for sample in HANDLED:
        handler = registry.find(sample.source, sample.type)
        known = longest.setdefault(handler, sample)
        if len(sample.body) > len(known.body):
            longest[handler] = sample
    return list(longest.values())


class TestAPart:
    def test_takes_nothing_away_and_makes_no_difference_whenever_it_comes(self, read: Any) -> None:
        """A body without one of its fields: after the whole one, twice, the rows are those of the whole one; before it
        too."""
        for sample in of_each_handler():
            self._leave_out(sample, read)

    def _leave_out(self, sample: Sample, read: Any) -> None:
        body, done = document(sample), set[Any]()
        whole = delivered(sample, body)
        assert isinstance(whole, Event)
        for one in without(body):
            part = delivered(sample, one.body)
            if isinstance(part, BadEnvelope) or not _says_less(one):
                continue
            if (seen := read(part)) not in done:
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
