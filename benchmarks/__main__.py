"""Measure jobfarm beside its peers and its floors, and write benchmarks/RESULTS.md.

make bench        (all of it: some 95 minutes, 60 of which are `snapshot`'s two flows; ten gigabytes while it runs)
.venv/bin/python -m benchmarks --quick        (a tenth of the jobs, one round: to see whether it works)
.venv/bin/python -m benchmarks --history FOLDER        (what workers ask and are answered is checked afterwards)
.venv/bin/python -m benchmarks --rows throughput,pickup --rounds 3 --only PgQueuer,Celery

Peers are installed into var/benchmarks from PyPI and npm. Each row is a module that can be run by itself. Compare the
numbers of one run with each other only; nothing else should run on the machine.
"""

import argparse
import importlib
import os
import platform
import re
import subprocess
import sys
import time
import traceback
from pathlib import Path

from benchmarks import options, peers, results

ROWS = (
    "throughput",
    "pickup",
    "mixed",
    "network",
    "front_door",
    "prefix",
    "prefetch",
    "own_worker",
    "batch",
    "flows",
    "flows_beside",
    "scheduled",
    "backlog",
    "watched",
    "idle",
    "rest",
    "depth",
    "snapshot",
    "cost",
    "growth",
)  # each a module here
PAGE = Path(__file__).with_name("RESULTS.md")
SETTINGS = ("shared_buffers", "fsync", "synchronous_commit", "max_wal_size", "wal_compression", "autovacuum_naptime")


def main() -> None:
    """Run the rows that were asked for; a row that breaks is reported and keeps its old part of the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=lambda text: text.split(","), default=list(ROWS))
    parser.add_argument("--minutes", type=float, default=30, help="how long the steady farm of `snapshot` runs")
    given = options.read(parser)
    rows = parser.parse_known_args()[0].rows
    parts, broken = _parts(), []
    for row in rows:
        given.say(f"== {row} ({time.strftime('%H:%M:%S')})")
        try:
            parts[row] = _measured(row, given, parser.parse_known_args()[0].minutes)
        except Exception:  # the others are still worth having
            traceback.print_exc()
            broken.append(row)
        if not given.quick:
            PAGE.write_text(_page(parts), encoding="utf-8")
    if found := sorted(Path(os.environ.get("BENCH_HISTORY", os.devnull)).glob("*.gz")):
        judged = subprocess.run([sys.executable, "-m", "tests.histories", *found], cwd=peers.ROOT, check=False)
        broken += ["the history"] if judged.returncode else []
    if broken:
        sys.exit(f"These broke: {', '.join(broken)}")


def _measured(row: str, given: options.Options, minutes: float) -> str:
    os.environ["BENCH_ROW"] = f"{row}."  # whose databases may have the names of those of another row
    module = importlib.import_module(f"benchmarks.{row}")
    more = {"minutes": minutes} if row == "snapshot" else {}
    tables = module.main(given, **more)
    results.show(tables)
    return "\n".join(table.markdown() for table in tables)


def _parts() -> dict[str, str]:
    """What the page says so far, by row."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    found = re.findall(r"<!-- (\w+) -->\n(.*?)<!-- end -->", page, re.DOTALL)
    return {row: text for row, text in found if row in ROWS}


def _page(parts: dict[str, str]) -> str:
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    head = [
        "# Measured\n",
        "Written by `make bench`: median, least and most of the rounds, ratio to the floor (to which marks refer).",
        "What is compared took turns in one run on one machine. Compare ratios.\n",
        f"{machine}, {_postgresql()}.",
        "Peers: " + ", ".join(f"{name} {version}" for name, version in peers.versions().items()) + ".\n",
    ]
    body = [f"<!-- {row} -->\n{parts[row]}<!-- end -->\n" for row in ROWS if row in parts]
    return "\n".join([*head, *body])


def _postgresql() -> str:
    """Its version and settings; asked in a process of its own, so that this one holds no connection."""
    answer = (
        "import django; django.setup(); from django.db import connection as c; k = c.cursor();"
        "k.execute('SHOW server_version'); print('PostgreSQL', k.fetchone()[0], end='')\n"
        f"for name in {SETTINGS!r}: k.execute('SHOW ' + name); print(',', name, '=', k.fetchone()[0], end='')"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "jobfarm.settings"}
    done = subprocess.run(
        [sys.executable, "-c", answer], env=environment, cwd=peers.ROOT, check=True, text=True, stdout=subprocess.PIPE
    )
    return done.stdout


if __name__ == "__main__":
    main()
