"""Which deliveries somebody means, as a value that can be scheduled and shown as a sentence."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, Self

from webhooks.domain.states import Status

_MOMENTS: Final = ("received_from", "received_to")


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
        moments = {name: value.isoformat() if (value := getattr(self, name)) else None for name in _MOMENTS}
        return asdict(self) | {"statuses": list(self.statuses)} | moments

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> Self:
        moments = {name: datetime.fromisoformat(text) if (text := document.get(name)) else None for name in _MOMENTS}
        return cls(**{**document, "statuses": tuple(map(Status, document.get("statuses", ()))), **moments})

    def sentence(self) -> str:
        parts = [f"{name} {value}" for name, value in self.as_json().items() if value and name != "statuses"]
        parts += [f"status {' or '.join(self.statuses)}"] if self.statuses else []
        return ", ".join(parts) or "everything"
