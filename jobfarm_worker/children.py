"""Jobs that a handler submits for its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobfarm_worker import protocol
from jobfarm_worker.asking import Asking
from jobfarm_worker.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A job that this one has submitted."""

    id: int
    kind: str


class Children(Asking):
    def submit(self, position: int, work: Mapping[str, Any]) -> Any:
        """The Child: to be awaited on the loop; in any other thread this waits for the farm's answer itself."""
        self.outbox.check()
        return self.here(self._submit(position, work))

    async def _submit(self, position: int, work: Mapping[str, Any]) -> Child:
        call = protocol.submit(self.claimed, position=position, work=work)
        answer: Mapping[str, Any] = {}
        try:
            answer = await self.farm.insist(call, heartbeat_s=self.claimed.heartbeat_s)
        except Refused as refusal:
            self.refused(refusal, "The farm took no child")
        return Child(id=int(answer["id"]), kind=str(work["kind"]))
