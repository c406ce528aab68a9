"""The input files of a job: fetched from the farm, a cut download goes on where it was cut, the hash is checked."""

import asyncio
import hashlib
import io
import os
from pathlib import Path
from typing import IO, Any

from jobfarm_client import wire
from jobfarm_client.backoff import Backoff
from jobfarm_worker import pace
from jobfarm_worker.asking import Asking
from jobfarm_worker.errors import Failed, Refused, Unreachable
from jobfarm_worker.protocol import InputFile

MOST_CUTS = 10  # downloads in a row that broke off without a new byte: then the file is broken, and not the network


class Inputs(Asking):
    def read(self, name: str) -> Any:
        """The bytes of an input: to be awaited on the loop; in any other thread this waits for them itself."""
        return self.here(self._read(self._named(name)))

    def save(self, name: str, path: str | os.PathLike[str]) -> Any:
        """Write an input to a file, in pieces, and return its path; to be awaited as `read`.

        It has its name only once it is whole: until then it has `.part` behind it.
        """
        return self.here(self._save(self._named(name), Path(path)))

    def whole(self) -> Any:
        """The payload with its parts; to be awaited as `read`."""
        return self.here(self._whole())

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
        backoff = Backoff(rng=self.farm.rng, cap_s=pace.pause_s(self.claimed.heartbeat_s))
        cuts = 0
        while download.size < file.size:
            before = download.size
            try:
                await self.farm.http.fetch(file.name, claimed=self.claimed, start=before, take=download.take)
                cuts += download.size == before
            except Unreachable as error:
                cuts += error.maybe_done
            except Refused as refusal:
                self.refused(refusal, f"The farm has no input {file.name}")
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
