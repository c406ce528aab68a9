"""Live queries: a read, the topics that make it stale, one answer a process for all who watch (ADR 4)."""

from typing import Final

RECONNECTED: Final = "*"  # handed to every watcher of topics when messages may have been lost
