"""What a request to a receiver comes to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from outbox.domain import retries

KEPT_BYTES: Final = 4096  # of an answer; no more of it is read


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a request came to. `status` None: there was no answer, and `error` is the reason, without the address
    itself, whose path may be a secret."""

    status: int | None = None
    error: str = ""
    duration_ms: int = 0
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_accepted(self) -> bool:
        """Whether the receiver took it: 2xx."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace").replace("\x00", "�")

    def retry_after_s(self, *, now: datetime) -> float | None:
        """How long the receiver asks to be left alone."""
        return None if self.status is None else retries.retry_after_s(self.status, self.headers, now=now)
