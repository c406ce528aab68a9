"""Web processes and janitors say that they are there (docs/adr/0047). Clusters do so in the scheduler's own table."""

import os
import socket
import uuid
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from jobs.domain.presence import Part
from jobs.queries import presence

# What pages show of processes goes stale by time alone: each web process tells those who watch there, and nobody else,
# as often as it reports itself.
TOPIC: Final = "processes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """This process, from its start on. Ids of processes come round again, so it has one of its own beside."""

    part: Part
    id: UUID = field(default_factory=uuid.uuid4)
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)

    def report(self) -> None:
        """Say that it is there: every `domain.presence.EVERY_S` seconds, from where the process does its work."""
        presence.report(self.id, part=self.part, host=self.host, pid=self.pid)

    def end(self) -> None:
        """Say that it ends. Nothing that it reports afterwards counts."""
        presence.end(self.id)
