"""Who is measured: us, the floor under us, and the peers, each in an environment of its own under `var/benchmarks`."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "var" / "benchmarks"
SCRIPTS = Path(__file__).with_name("contenders")
# Both want Node.js 22.18 or newer, and Debian 12 has 18: npm brings one.
NODE_PACKAGES = ("node@22.23.3", "graphile-worker@0.18.0", "pg-boss@12.38.0", "pg@8.23.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One who is measured. `share`: of the jobs of a full run, for those that would take minutes."""

    name: str
    script: str
    packages: tuple[str, ...] = ()
    share: float = 1.0

    @property
    def is_ours(self) -> bool:
        """Whether it is this code, on a database that has been migrated."""
        return not self.packages and self.script.endswith(".py")

    @property
    def command(self) -> list[str]:
        """How its script is run."""
        if self.script.endswith(".mjs"):
            return [str(HOME / "node" / "node_modules" / ".bin" / "node"), str(SCRIPTS / self.script)]
        python = HOME / self.name / "bin" / "python" if self.packages else Path(sys.executable)
        return [str(python), str(SCRIPTS / self.script)]


RAW = Contender(name="raw SQL", script="raw.py")
OURS = Contender(name="jobfarm", script="ours.py")
PEERS = (
    Contender(
        name="PgQueuer", script="pgqueuer_jobs.py",
        packages=("pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"),
    ),
    Contender(name="graphile-worker", script="graphile_worker_jobs.mjs"),
    Contender(name="pg-boss", script="pg_boss_jobs.mjs"),
    Contender(name="awa", script="awa_jobs.py", packages=("awa-pg==0.6.9",)),
    Contender(name="Procrastinate", script="procrastinate_jobs.py", packages=("procrastinate==3.10.0",), share=0.25),
    Contender(name="Celery", script="celery_jobs.py", packages=("celery[redis]==5.7.0",), share=0.25),
    Contender(
        name="django-q2", script="django_q_jobs.py", share=0.1,
        packages=("django-q2==1.11.1", "Django==5.2.19", "psycopg[binary]==3.3.9"),
    ),
    Contender(
        name="django-tasks", script="django_tasks_jobs.py", share=0.05,
        packages=("django-tasks==0.12.0", "django-tasks-db==0.13.0", "Django==5.2.19", "psycopg[binary]==3.3.9"),
    ),
)  # fmt: skip

# Their flows are measured, and nothing else.
OF_FLOWS = (
    Contender(name="pg-boss", script="pg_boss_jobs.mjs"),
    Contender(name="DBOS", script="dbos_flows.py", packages=("dbos==3.4.0", "psycopg[binary]==3.3.9")),
)


def is_installed(contender: Contender) -> bool:
    """Whether its environment is there, of these versions."""
    stamp, wanted = _stamp(contender)
    return not wanted or (stamp.exists() and stamp.read_text() == json.dumps(wanted))


def install(contender: Contender) -> None:
    """Make its environment, if it is not there yet. Raises CalledProcessError."""
    if is_installed(contender):
        return
    stamp, wanted = _stamp(contender)
    if contender.packages:
        subprocess.run([sys.executable, "-m", "venv", "--clear", stamp.parent], check=True)
        subprocess.run([stamp.parent / "bin" / "pip", "install", "--quiet", *wanted], check=True)
    else:  # npm is the machine's (apt-get install npm)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        (stamp.parent / "package.json").write_text('{"private": true}')
        subprocess.run(["npm", "install", "--silent", *wanted], cwd=stamp.parent, check=True, env=os.environ)
    stamp.write_text(json.dumps(wanted))


def versions() -> dict[str, str]:
    """What is installed, by name of the package."""
    pinned = [package.split("==") for peer in (*PEERS, *OF_FLOWS) for package in peer.packages]
    pinned += [package.rsplit("@", 1) for package in NODE_PACKAGES]
    return dict(pinned)


def _stamp(contender: Contender) -> tuple[Path, tuple[str, ...]]:
    """The file that says what is installed, and what should be: nothing for what is ours."""
    is_node = contender.script.endswith(".mjs")
    folder = HOME / ("node" if is_node else contender.name)
    return folder / "installed.json", NODE_PACKAGES if is_node else contender.packages
