"""The bodies in tests/data/webhooks/payloads, as events that handlers take; and what handlers wrote, to compare."""

import copy
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from webhooks.domain import bodies
from webhooks.handlers import registry
from webhooks.handlers.registry import Event
from webhooks.models import Activity, Delivery, Resource, SandboxSession, SandboxTelemetry
from webhooks.models.resources import TYPES

FOLDER = Path(__file__).parent / "data" / "webhooks" / "payloads"
RECEIVED = datetime(2026, 11, 21, 12, tzinfo=UTC)
_SOURCES = {
    "sandbox-hook-events": "sandbox_hooks",
    "sandbox-completion": "sandbox_completion",
    "sandbox-tail-telemetry": "sandbox_telemetry",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One body. `type` is that of the route, "" if neither body nor headers name it."""

    n: int
    file: str
    source: str
    type: str
    body: bytes

    def event(self, **changes: Any) -> Event:
        """It as the inbox hands it to a handler; `changes` replace parts of it."""
        given: dict[str, Any] = {
            "source": self.source,
            "type": self.type,
            "delivery_id": self.file,
            "body": self.document(),
            "occurred_at": RECEIVED + timedelta(seconds=self.n),
            "received_at": RECEIVED + timedelta(hours=1),
            "pk": self.n,
        }
        return Event(**(given | changes))

    def document(self) -> Any:
        """Its JSON, as the inbox parses it: of telemetry, which sends lists, under `items`."""
        document = bodies.parse(self.body, content_type="application/json").document
        if self.source != "sandbox_telemetry":
            return document
        return {"items": document if isinstance(document, list) else [document]}


@cache
def samples() -> tuple[Sample, ...]:
    """All of them, in the order of the manifest."""
    listed = json.loads((FOLDER / "manifest.json").read_text())["files"]
    return tuple(_sample(n, entry) for n, entry in enumerate(listed, start=1))


def sample(file: str) -> Sample:
    """One of them by its name, like `github/push.2.json`."""
    [found] = [given for given in samples() if given.file == file]
    return found


def routed() -> list[Sample]:
    """Those that have a type."""
    return [given for given in samples() if given.type]


def handle(event: Event) -> str | None:
    """Give an event to its handler; why it was ignored, or None."""
    handler = registry.find(event.source, event.type)
    assert handler is not None, f"nothing handles {event.source} {event.type}"
    return handler(event)


def report(file: str, **changes: Any) -> str | None:
    """Give one of the bodies to its handler."""
    return handle(sample(file).event(**changes))


def changed(file: str, **changes: Any) -> dict[str, Any]:
    """The body of a sample; `issue__state` names a field within."""
    document = copy.deepcopy(sample(file).document())
    for field, value in changes.items():
        *path, last = field.split("__")
        holder = document
        for part in path:
            holder = holder[part]
        holder[last] = value
    assert isinstance(document, dict)
    return document


def line() -> tuple[str, str, str]:
    """The one line there is, as people read it; its link; the row it speaks of."""
    found = Activity.objects.get()
    return (f"{found.actor} {found.verb} {found.object}".strip(), found.link, f"{found.kind} {found.resource}".strip())


def lines() -> list[str]:
    """All lines as people read them, in the order in which they were written."""
    return [f"{one.actor} {one.verb} {one.object}".strip() for one in Activity.objects.order_by("id")]


def tables() -> list[type[Any]]:
    """All tables that handlers write."""
    return [*TYPES, SandboxSession, SandboxTelemetry, Activity]


class Stored(SimpleNamespace):
    """A resource: its columns, and the fields of its document, with moments as such. As a text it is its name."""

    def __str__(self) -> str:
        return str(self.title_of_row)


def stored(table: type[Resource], **narrow: Any) -> Any:
    """The one resource of a type."""
    return _stored(table.objects.get(**narrow))


def all_stored(table: type[Resource]) -> list[Any]:
    """All resources of a type, by their sender's ids."""
    return [_stored(row) for row in table.objects.order_by("external_id")]


def fields(table: type[Resource], *names: str) -> tuple[Any, ...]:
    """Of the one resource of a type what it says in these fields; None for what it does not."""
    row = stored(table)
    return tuple(getattr(row, name, None) for name in names)


def _stored(row: Resource) -> Stored:
    moments = {
        name: datetime.fromisoformat(value) for name, value in row.document.items() if name.endswith("_at") and value
    }
    columns = {name: getattr(row, name) for name in ("external_id", "parent", "state_at", "deleted_at", "field_keys")}
    return Stored(title_of_row=str(row), **(columns | row.document | moments))


def written() -> dict[str, list[dict[str, Any]]]:
    """What lies in all these tables, without what the database itself added, and without the moment of lines whose
    sender names none: they have that of their receipt."""
    received = dict(Delivery.objects.values_list("pk", "received_at"))
    return {
        model.__name__: sorted((_shown(row, received) for row in model.objects.values()), key=repr)
        for model in tables()
    }


def clear() -> None:
    """Empty all tables that handlers write."""
    for model in tables():
        model.objects.all().delete()


def _shown(row: dict[str, Any], received: dict[int, datetime]) -> dict[str, Any]:
    shown = {name: value for name, value in row.items() if name not in {"id", "written_at"}}
    if "at" in row and row["at"] == received.get(row.get("delivery_id", 0)):
        shown["at"] = "when it was received"
    return shown


def _sample(n: int, entry: dict[str, Any]) -> Sample:
    folder = entry["file"].partition("/")[0]
    source = _SOURCES.get(folder, folder)
    body = (FOLDER / entry["file"]).read_bytes()
    return Sample(n=n, file=entry["file"], source=source, type=_type(source, entry["event"], body), body=body)


def _type(source: str, event: str | None, body: bytes) -> str:
    if source == "sandbox_telemetry":
        return "batch"
    action = json.loads(body).get("action") if source == "github" else None
    return f"{event}.{action}" if action else (event or "")
