"""Web processes and janitors report that they are there, and web processes that workers reach them
(docs/adr/0047). Clusters report to the scheduler."""

import os
import socket
import uuid
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from django.conf import settings

from jobs.domain import beats
from jobs.domain.presence import Part
from jobs.queries import presence

# What pages show of processes goes stale by time alone: each web process notifies its own watchers, as often as it
# reports itself.
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

    def beat(self) -> None:
        """Report that it is there and reachable for workers now: in a thread, and by a connection, that such
        calls use, every `domain.beats.beat_s` seconds. Waits for no lock.

        After a gap, in which nobody could say so, `jobs_hearing.since` is this moment.
        """
        lease_s: float = settings.JOBFARM["LEASE_S"]
        beat_s, gap_s = beats.beat_s(lease_s), beats.gap_s(lease_s)
        presence.beat(self.id, part=self.part, host=self.host, pid=self.pid, beat_s=beat_s, gap_s=gap_s)

    def end(self) -> None:
        """Say that it ends. Nothing that it reports afterwards counts."""
        presence.end(self.id)
