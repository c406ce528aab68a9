"""What a call wants of the network and of time. Calls are generators of these, so that one text of each call serves
the client that blocks and the one that is awaited."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request below the farm's address."""

    path: str
    method: str = "GET"
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    content: bytes | None = None
    """In place of a body of JSON."""
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None
    """For each step of it; None: the client's own."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send it; the answer's JSON object comes back."""

    request: Request


@dataclass(frozen=True, slots=True)
class Fetch:
    """Send it; the answer's bytes come back, from wherever it redirects to."""

    request: Request


@dataclass(frozen=True, slots=True)
class Open:
    """Open an event stream; one that is open already is closed."""

    request: Request


@dataclass(frozen=True, slots=True)
class Read:
    """Wait for the next text of the open stream; None comes back at its end."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Let so many seconds pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Emit:
    """Hand this to the caller, who iterates."""

    item: Any


Effect = Send | Fetch | Open | Read | Pause | Emit
Flow = Generator[Effect, Any, T]
"""A call: what it wants, one after another, and what it returns. Errors are thrown into it as FarmError."""
