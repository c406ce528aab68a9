"""A server of ours for a benchmark, and the plainest of clients: a socket, a request, an answer."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers import ROOT


@contextmanager
def server(application: str, environment: Mapping[str, str]) -> Iterator[int]:
    """One uvicorn process with this application; its port."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        # uvicorn leaves this out for an inherited socket: each answer would wait for its head to be acknowledged.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        options = ["--fd", str(listener.fileno()), "--no-access-log", "--log-level", "warning"]
        if "BENCH_HISTORY" in os.environ:
            application = application.replace("jobfarm.asgi:", "benchmarks.recorded_asgi:")
        command = [sys.executable, "-m", "uvicorn", application, *options, "--ws", "websockets-sansio"]
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, pass_fds=[listener.fileno()])
        try:
            yield int(listener.getsockname()[1])
        finally:
            process.terminate()
            process.wait(30)


class Client:
    """One connection that is kept open."""

    def __init__(self, port: int, *, key: str = "") -> None:
        self._port, self._key = port, key

    async def __aenter__(self) -> "Client":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def post(self, path: str, body: Any) -> Any:
        """Send JSON, and return the answer's. Raises RuntimeError unless it is a 200 or 201."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        head += f"Authorization: Bearer {self._key}\r\nContent-Length: {len(content)}\r\n\r\n"
        self._writer.write(head.encode() + content)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        lines = answer.splitlines()
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        frame = await self._reader.readexactly(length)
        if lines[0].split()[1] not in {b"200", b"201"}:
            raise RuntimeError(f"{lines[0]!r}: {frame!r}")
        return json.loads(frame)


def memory_mb(port: int) -> float:
    """What the server that listens at this port holds in memory. Raises LookupError."""
    lines = Path(f"/proc/{process_of(port)}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def process_of(port: int) -> int:
    """The process of the server that listens at this port. Raises LookupError."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"uvicorn" in (folder / "cmdline").read_bytes() and _listens(folder, port):
                return int(folder.name)
        except OSError:
            continue
    raise LookupError(port)


def _listens(folder: Path, port: int) -> bool:
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    inodes = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}
    return any(str(link.readlink()) in inodes for link in (folder / "fd").iterdir())
