"""Which messages somebody means."""

from dataclasses import asdict, dataclass
from typing import Any, Self

from outbox.domain.events import TYPES
from outbox.domain.states import Status

_LONGEST_SUBJECT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What is left empty does not narrow."""

    endpoint: int | None = None
    status: Status | None = None
    event_type: str = ""
    subject: str = ""

    def columns(self) -> dict[str, Any]:
        columns = {
            "endpoint_id": self.endpoint, "status": self.status,
            "event__type": self.event_type, "subject": self.subject,
        }  # fmt: skip
        return {name: value for name, value in columns.items() if value}

    def sentence(self) -> str:
        endpoint = f"endpoint {self.endpoint}" if self.endpoint else ""
        return ", ".join(filter(None, (self.status or "", self.event_type, self.subject, endpoint))) or "all"

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"status": self.status or ""}

    @classmethod
    def read(cls, *, endpoint: int | None = None, status: str = "", event_type: str = "", subject: str = "") -> Self:
        """The filter of `as_json`, of a form or an address; what is unknown there does not narrow."""
        return cls(
            endpoint=endpoint,
            status=Status(status) if status in set(Status) else None,
            event_type=event_type if event_type in TYPES else "",
            subject=subject.replace("\x00", "")[:_LONGEST_SUBJECT],
        )
