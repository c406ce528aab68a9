"""Which deliveries somebody means, as a value that can be scheduled and shown as a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from webhooks.domain.states import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What is left empty does not narrow. `text` is words of the body, or a delivery id, or an event type."""

    source: str = ""
    event_type: str = ""
    sandbox: str = ""
    statuses: tuple[Status, ...] = ()
    received_from: datetime | None = None
    received_to: datetime | None = None
    text: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "event_type": self.event_type,
            "sandbox": self.sandbox,
            "statuses": list(self.statuses),
            "received_from": self.received_from and self.received_from.isoformat(),
            "received_to": self.received_to and self.received_to.isoformat(),
            "text": self.text,
        }

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> Self:
        return cls(
            source=str(document.get("source") or ""),
            event_type=str(document.get("event_type") or ""),
            sandbox=str(document.get("sandbox") or ""),
            statuses=tuple(Status(one) for one in document.get("statuses", ())),
            received_from=_moment(document.get("received_from")),
            received_to=_moment(document.get("received_to")),
            text=str(document.get("text") or ""),
        )

    def sentence(self) -> str:
        parts = [f"{name} {value}" for name, value in self.as_json().items() if value and name != "statuses"]
        parts += [f"status {' or '.join(self.statuses)}"] if self.statuses else []
        return ", ".join(parts) or "everything"


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
