"""What a handler asks the farm and waits for, awaited on the loop, or waited for in the thread of a plain function:
jobs that it submits for its own, and its input files."""

import asyncio
import hashlib
import io
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from jobfarm_client import wire
from jobfarm_client.backoff import Backoff
from jobfarm_worker import protocol
from jobfarm_worker.errors import Failed, JobStopped, Refused, Unreachable
from jobfarm_worker.farm import Farm
from jobfarm_worker.outbox import Outbox
from jobfarm_worker.protocol import Call, ClaimedJob, InputFile

LOOK_S = 0.2  # how often a plain function that waits looks whether its job was stopped
MOST_CUTS = 10  # downloads in a row that broke off without a new byte: then the file is broken, and not the network


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A job that this one has submitted."""

    id: int
    kind: str


@dataclass(slots=True, kw_only=True)
class Asking:
    """Of one held job. `loop` is the one that calls to the farm run on; `on_lost` gets why the lease is gone.

    What `submit`, `read`, `save` and `whole` return is to be awaited on the loop; in any other thread they wait for the
    answer themselves. They raise JobStopped, and Failed for what the farm refuses.
    """

    claimed: ClaimedJob
    farm: Farm
    outbox: Outbox
    on_lost: Callable[[str], None]
    loop: asyncio.AbstractEventLoop

    def submit(self, position: int, work: Mapping[str, Any]) -> Any:
        """Submit this work; the Child."""
        self.outbox.check()
        return self._here(self._submit(position, work))

    def read(self, name: str) -> Any:
        """The bytes of an input."""
        return self._here(self._read(self._named(name)))

    def save(self, name: str, path: str | os.PathLike[str]) -> Any:
        """Write an input to a file, in pieces, and return its path.

        It has its name only once it is whole: until then it has `.part` behind it.
        """
        return self._here(self._save(self._named(name), Path(path)))

    def whole(self) -> Any:
        """The payload with its parts."""
        return self._here(self._whole())

    def _here(self, asking: Coroutine[Any, Any, Any]) -> Any:
        try:
            if asyncio.get_running_loop() is self.loop:
                return asking
        except RuntimeError:
            pass  # none runs in this thread
        future = asyncio.run_coroutine_threadsafe(asking, self.loop)
        while True:
            try:
                return future.result(timeout=LOOK_S)
            except TimeoutError:
                if future.done():  # it failed by this, or was answered just now
                    return future.result()
            if self.outbox.stopped:
                future.cancel()
                raise JobStopped

    def _refused(self, refusal: Refused, sentence: str) -> None:
        """Raise JobStopped where the lease is lost, and Failed, which begins with `sentence`, unless it may pass."""
        if refusal.is_lease_lost:
            self.on_lost(refusal.why_lost)
            raise JobStopped from refusal
        if not refusal.is_for_now:
            raise Failed(f"{sentence}: {refusal}", retryable=False) from refusal

    async def _submit(self, position: int, work: Mapping[str, Any]) -> Child:
        # The same position again is the same job.
        body = {"lease": self.claimed.lease, "position": position, **work}
        call = Call(verb="submit", job=self.claimed.id, body=body)
        answer: Mapping[str, Any] = {}
        try:
            answer = await self.farm.insist(call, heartbeat_s=self.claimed.heartbeat_s)
        except Refused as refusal:
            self._refused(refusal, "The farm took no child")
        return Child(id=int(answer["id"]), kind=str(work["kind"]))

    async def _whole(self) -> Any:
        parts = {file.name: await self._read(file) for file in self.claimed.files if file.at}
        places = [(path, parts[file.name]) for file in self.claimed.files for path in file.at]
        return await asyncio.to_thread(wire.put_together, self.claimed.payload, places)

    def _named(self, name: str) -> InputFile:
        self.outbox.check()
        files = {file.name: file for file in self.claimed.files}
        if name not in files:
            known = ", ".join(files) or "none"
            raise Failed(f"This job has no input {name!r}; it has: {known}.", retryable=False)
        return files[name]

    async def _read(self, file: InputFile) -> bytes:
        content = io.BytesIO()
        await self._fetch(file, content)
        return content.getvalue()

    async def _save(self, file: InputFile, path: Path) -> Path:
        part = path.with_name(f"{path.name}.part")
        try:
            with part.open("wb") as content:
                await self._fetch(file, content)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return path

    async def _fetch(self, file: InputFile, content: IO[bytes]) -> None:
        """Write all of the file. Raises JobStopped, and Failed for one that the farm refuses or has not whole."""
        for _ in range(2):  # what came wrong once may come right: then the network had changed it
            content.seek(0)
            content.truncate()
            download = _Download(content)
            await self._until_whole(file, download)
            if download.sha256 == file.sha256:
                return
        raise Failed(f"The input {file.name} did not arrive as it was uploaded: its SHA-256 is another.")

    async def _until_whole(self, file: InputFile, download: "_Download") -> None:
        backoff = Backoff(rng=self.farm.rng, cap_s=protocol.longest_pause_s(self.claimed.heartbeat_s))
        cuts = 0
        while download.size < file.size:
            before = download.size
            try:
                await self.farm.http.fetch(file.name, claimed=self.claimed, start=before, take=download.take)
                cuts += download.size == before
            except Unreachable as error:
                cuts += error.maybe_done
            except Refused as refusal:
                self._refused(refusal, f"The farm has no input {file.name}")
            if download.size > before:
                backoff.succeeded()
                cuts = 0
            if cuts > MOST_CUTS:
                raise Failed(f"The input {file.name} ends at byte {download.size} of {file.size}.")
            if download.size < file.size:
                await asyncio.sleep(backoff.failed())


class _Download:
    def __init__(self, content: IO[bytes]) -> None:
        self._content = content
        self._digest = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    async def take(self, start: int, chunk: bytes) -> None:
        """The bytes from `start` on. A server that knows no ranges begins from 0 again: what is there is skipped."""
        if new := chunk[max(0, self.size - start) :]:
            await asyncio.to_thread(self._write, new)

    def _write(self, new: bytes) -> None:
        self._content.write(new)
        self._digest.update(new)
        self.size += len(new)
