"""Live queries: a read, the topics that make it stale, one answer a process for all who watch (ADR 4)."""

from live.topics import RECONNECTED as RECONNECTED
