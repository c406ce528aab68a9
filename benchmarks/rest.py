"""A farm with nothing to do: what it asks the database, and what it takes of the machine.

.venv/bin/python -m benchmarks.rest [--quick]

Starts `manage.py farm --with-worker` with its default settings in a folder of its own, waits until it is at rest, and
then looks twice: at processor time, processes and memory, and after that at the statements. Those are read off the
server's log, which is told to take all of them down meanwhile: writing them is no part of the farm's own work.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks import results
from benchmarks.options import Options, parse
from benchmarks.peers import ROOT
from benchmarks.results import Table
from postgres import embedded
from postgres.embedded.places import SUPERUSER
from postgres.embedded.server import log_sizes, logged_since

STARTS_WITHIN_S, RESTING_S, WINDOW_S = 120.0, 75.0, 60.0
ENDS_WITHIN_S = 60.0
TICKS_A_S = os.sysconf("SC_CLK_TCK")
SHOWN = 40
STATEMENT = re.compile(r"LOG:  (?:statement|execute [^:]+): (.*)")
NAMED = re.compile(r"/\* (\S+) \*/")
ADDRESSES = re.compile(r"'[^']*'|\b\d+\b")
MARKS = "The marks: 3 statements a second, 1 % of one core, 25 processes, 400 MB."
NOT_OURS = ("DISCARD",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one farm took. `memory_mb` is PSS: what processes share counts once."""

    cpu: float
    processes: int
    memory_mb: float
    statements: Counter[str]
    seconds: float


def main(options: Options) -> list[Table]:
    """Measure once: it takes three minutes, and its numbers stand still."""
    window_s = options.seconds(WINDOW_S, least_s=2)
    with tempfile.TemporaryDirectory(prefix="jobfarm-rest-") as folder, _farm(Path(folder)) as pid:
        time.sleep(options.seconds(RESTING_S))
        found = _measured(pid, Path(folder), window_s, options)
    for name, count in found.statements.most_common(SHOWN):
        options.say(f"{count / found.seconds:8.2f}/s  {name}")
    return [_table(found)]


def _table(found: Found) -> Table:
    table = Table(what="A farm with nothing to do", is_less_better=True, notes=[MARKS])
    table.add("statements a second", found.statements.total() / found.seconds)
    table.add("processor time (% of one core)", 100 * found.cpu)
    table.add("processes", found.processes)
    table.add("memory, PSS (MB)", found.memory_mb)
    return table


@contextmanager
def _farm(folder: Path) -> Iterator[int]:
    """A farm whose data lie in `folder`, once it answers; its process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "JOBFARM_DATA": str(folder)}
    command = [sys.executable, "manage.py", "farm", "--with-worker", "--port", str(port)]
    with (folder / "farm.log").open("w") as log:
        farm = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True, stdout=log, stderr=log)
        try:
            _await_health(f"http://127.0.0.1:{port}/health/ready", farm)
            yield farm.pid
        finally:
            farm.send_signal(signal.SIGTERM)
            farm.wait(ENDS_WITHIN_S)


def _await_health(url: str, farm: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < until and farm.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 (our own server)
                return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError("The farm did not start.")


def _measured(farm: int, folder: Path, window_s: float, options: Options) -> Found:
    place = embedded.location(folder)
    server = int((place.cluster / "postmaster.pid").read_text().split()[0])
    began_s, began = _cpu_s(_trees(farm, server)), time.monotonic()
    time.sleep(window_s)
    pids = _trees(farm, server)
    cpu = (_cpu_s(pids) - began_s) / (time.monotonic() - began)
    memory_mb = sum(map(_pss_mb, pids))
    for pid in pids:
        options.say(f"{_pss_mb(pid):8.1f} MB  {_name(pid)}")
    statements = _statements(place, window_s)
    return Found(cpu=cpu, processes=len(pids), memory_mb=memory_mb, statements=statements, seconds=window_s)


def _statements(place: embedded.Location, seconds: float) -> Counter[str]:
    """What the server was asked during the next seconds, by its name or its text without values."""
    _log(place, "SET log_statement = 'all'")
    time.sleep(1)
    sizes = log_sizes(place.cluster)
    time.sleep(seconds)
    text = logged_since(sizes, place.cluster)
    _log(place, "RESET log_statement")
    found = (_short(match[1]) for match in STATEMENT.finditer(text))
    return Counter(name for name in found if not name.startswith(NOT_OURS))


def _log(place: embedded.Location, change: str) -> None:
    conninfo = {"host": str(place.socket_folder), "port": embedded.PORT, "user": SUPERUSER}
    with psycopg.connect(dbname=embedded.DATABASE, autocommit=True, **conninfo) as connection:  # type: ignore[arg-type]
        connection.execute(f"ALTER SYSTEM {change}".encode())
        connection.execute("SELECT pg_reload_conf()")


def _short(statement: str) -> str:
    named = NAMED.search(statement)
    return named[1] if named else ADDRESSES.sub("?", statement)[:110]


def _trees(*roots: int) -> list[int]:
    """These processes and all that come of them."""
    parents = {pid: fields[1] for pid in _pids() if (fields := _stat(pid))}
    found = [pid for pid in roots if pid in parents]
    for pid in found:
        found += [child for child, parent in parents.items() if int(parent) == pid]
    return found


def _pids() -> Iterable[int]:
    return (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))


def _cpu_s(pids: Iterable[int]) -> float:
    """Their own, and that of their children which have ended."""
    return sum(sum(map(int, fields[11:15])) for pid in pids if (fields := _stat(pid))) / TICKS_A_S


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _pss_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _name(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return words.replace(str(ROOT), "")[:110]


if __name__ == "__main__":
    results.show(main(parse(__doc__)))
