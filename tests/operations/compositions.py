"""What deploy/compose.yaml starts, started without containers: its commands, its environment, its files. Only where
things are differs: names of services are addresses of this machine."""

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import yaml

from tests.operations import postgresqls
from tests.operations.postgresqls import DEBIAN_15, Server

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?::\?[^}]*)?\})")
UP_WITHIN_S = 60.0


def filled_in(text: str, variables: Mapping[str, str]) -> str:
    """As compose reads it: ${NAME}, ${NAME:?message}, and $$ for a dollar sign."""
    return _VARIABLE.sub(lambda match: variables[match[1]] if match[1] else "$", text)


def env_file(password: str) -> dict[str, str]:
    """deploy/environment as deploy/.env, every change-me changed."""
    text = (DEPLOY / "environment").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    given = dict(line.split("=", 1) for line in lines)
    own = {"SECRET_KEY": "of-a-test" * 8, "JOBFARM_METRICS_TOKEN": "of-metrics" * 4, "POSTGRES_PASSWORD": password}
    return {name: value for name, value in given.items() if "change-me" not in value} | own


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the services are on this machine."""

    postgres: Server
    pooler_port: int
    redis_port: int
    files: Path

    def of(self, text: str) -> str:
        """A setting of compose.yaml, with this machine's places."""
        at = {
            "@pgbouncer:6432": f"@127.0.0.1:{self.pooler_port}",
            "@postgres:5432": f"@{quote(str(self.postgres.folder), safe='')}:5432",
            "redis:6379": f"127.0.0.1:{self.redis_port}",
            "/var/lib/jobfarm-files": str(self.files),
        }
        for theirs, ours in at.items():
            text = text.replace(theirs, ours)
        return text


def environment(service: str, place: Place, variables: Mapping[str, str]) -> dict[str, str]:
    """What a container of this service has in its environment."""
    own = {name: place.of(filled_in(str(value), variables)) for name, value in SERVICES[service]["environment"].items()}
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**inherited, **(variables if "env_file" in SERVICES[service] else {}), **own}


@contextmanager
def postgres(password: str) -> Iterator[Server]:
    """The service `postgres` after its first start: role and database jobfarm, and its init scripts."""
    with postgresqls.primary(DEBIAN_15) as server:
        with psycopg.connect(postgresqls.url(server), autocommit=True) as admin:
            admin.execute(f"CREATE ROLE jobfarm SUPERUSER LOGIN PASSWORD '{password}'")
            admin.execute("CREATE DATABASE jobfarm OWNER jobfarm")
            rules = server.folder / "data" / "pg_hba.conf"
            rules.write_text("local all jobfarm scram-sha-256\n" + rules.read_text())
            admin.execute("SELECT pg_reload_conf()")
        scripts = [volume for volume in SERVICES["postgres"]["volumes"] if "initdb.d" in volume]
        with psycopg.connect(
            host=str(server.folder), dbname="jobfarm", user="jobfarm", password=password, autocommit=True
        ) as jobfarm:
            for script in scripts:
                jobfarm.execute((DEPLOY / script.split(":")[0]).read_text())
        yield server


@contextmanager
def pgbouncer(place: Place, variables: Mapping[str, str]) -> Iterator[None]:
    """The service `pgbouncer`, by its own command line, and its file but for ports and folders."""
    folder, service = place.postgres.folder, SERVICES["pgbouncer"]
    text = (DEPLOY / "pgbouncer" / "pgbouncer.ini").read_text()
    for theirs, ours in {
        "host=postgres": f"host={folder}",
        "0.0.0.0": "127.0.0.1",
        "listen_port = 6432": f"listen_port = {place.pooler_port}",
        "/tmp/userlist.txt": f"{folder}/userlist.txt",
    }.items():
        assert theirs in text, theirs
        text = text.replace(theirs, ours)
    (folder / "pgbouncer.ini").write_text(text)
    [line] = service["command"]
    line = filled_in(line, variables).replace("/tmp/userlist.txt", f"{folder}/userlist.txt")
    line = line.replace("/etc/pgbouncer/pgbouncer.ini", f"{folder}/pgbouncer.ini")
    own = {name: filled_in(value, variables) for name, value in service["environment"].items()}
    with (folder / "pgbouncer.log").open("wb") as log:
        process = subprocess.Popen(
            [*service["entrypoint"], line], env={"PATH": f"{os.environ['PATH']}:/usr/sbin", **own},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **postgresqls.ACCOUNT,
        )  # fmt: skip
    try:
        _wait_until_up(process, place, folder / "pgbouncer.log")
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_until_up(process: "subprocess.Popen[bytes]", place: Place, log: Path) -> None:
    end = time.monotonic() + UP_WITHIN_S
    while b"process up" not in log.read_bytes():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)
