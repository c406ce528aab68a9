"""deploy/patroni: what the files say, and two nodes of them with one etcd on this machine, whose leader is lost."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import yaml

from postgres import configuration
from tests import documented
from tests.farm import until
from tests.forkserver import ROOT
from tests.operations import postgresqls
from tests.operations.fleets import Fleet
from tests.operations.postgresqls import ACCOUNT, DEBIAN_15, Server
from tests.ports import free_port

DEPLOY = ROOT / "deploy" / "patroni"
PATRONI: dict[str, Any] = yaml.safe_load((DEPLOY / "patroni.yml").read_text())
ETCD: dict[str, Any] = yaml.safe_load((DEPLOY / "etcd.yml").read_text())
FARMS_URL = re.search(r"DATABASE_URL=(\S+)", (DEPLOY / "patroni.yml").read_text())
PASSWORD = "PASSWORD"  # as the comment at the head of the file has it
BEFORE, AFTER = 10, 10  # jobs on either side of the failover
PROGRAMS = [shutil.which("patroni"), shutil.which("etcd")]


class TestTheFiles:
    def test_a_leader_has_the_time_to_renew_its_key(self) -> None:
        """Patroni's own rule: else a leader that is well may lose it."""
        dcs = PATRONI["bootstrap"]["dcs"]
        assert dcs["loop_wait"] + 2 * dcs["retry_timeout"] <= dcs["ttl"] <= 20

    def test_what_was_acknowledged_is_on_the_one_that_is_promoted(self) -> None:
        assert PATRONI["bootstrap"]["dcs"]["synchronous_mode"] is True
        assert PATRONI["bootstrap"]["dcs"]["postgresql"]["use_pg_rewind"] is True

    def test_the_farm_names_both_nodes_and_takes_the_one_that_writes(self) -> None:
        assert FARMS_URL is not None
        parsed = configuration.parse(FARMS_URL[1])
        first, second = parsed["host"].split(",")
        assert f"{first}:{parsed['port'].split(',')[0]}" == PATRONI["postgresql"]["connect_address"]
        assert second in (DEPLOY / "patroni.yml").read_text().split("etcd runs on three")[0]
        assert parsed["target_session_attrs"] == "read-write"
        [printed] = documented.blocks("operations.md", "ini")
        assert printed.strip() == f"DATABASE_URL={FARMS_URL[1]}"

    def test_patroni_knows_every_etcd(self) -> None:
        members = re.findall(r"http://([\d.]+):2380", ETCD["initial-cluster"])
        assert PATRONI["etcd3"]["hosts"] == [f"{member}:2379" for member in members]
        assert len(members) == 3
        assert members[0] in ETCD["listen-client-urls"]


@dataclass(frozen=True, slots=True)
class Node:
    """A Patroni with its PostgreSQL."""

    name: str
    api: int
    server: Server
    process: "subprocess.Popen[bytes]"

    def says(self, what: str) -> bool:
        """Whether it is the "leader", or the "sync" standby."""
        return _is_well(self.api, what)

    def log(self) -> str:
        """Return what its Patroni has logged."""
        return (self.server.folder / "patroni.log").read_text()

    def lose(self) -> None:
        """The machine is gone: Patroni and PostgreSQL at once."""
        self.process.kill()
        self.server.signal(signal.SIGKILL)


@pytest.mark.landing
@pytest.mark.skipif(not all(PROGRAMS), reason="needs patroni and etcd-server")
def test_jobs_go_on_when_the_leader_is_lost(tmp_path: Path) -> None:
    with ExitStack() as stack:
        nodes = stack.enter_context(_nodes())
        leader = next(node for node in nodes if node.says("leader"))
        standby = next(node for node in nodes if node is not leader)
        until(lambda: standby.says("sync"), within_s=60, what="the synchronous standby")
        url = _furnished(leader, nodes)
        fleet = Fleet(url, tmp_path, stack)
        acknowledged = [fleet.submit(f"before-{n}") for n in range(BEFORE)]
        leader.lose()
        acknowledged += [fleet.submit(f"after-{n}") for n in range(AFTER)]
        assert standby.says("leader")
        until(
            lambda: _ask(standby, "SELECT count(*) FROM jobs_outcome WHERE status = 'success'") == BEFORE + AFTER,
            within_s=60,
            what="the end of all jobs",
        )
        assert _ask(standby, "SELECT array_agg(id ORDER BY id) FROM jobs_job") == sorted(acknowledged)


def _furnished(leader: Node, nodes: list[Node]) -> str:
    """The role and the database of the farm, as the head of patroni.yml makes them; its DATABASE_URL."""
    text = (DEPLOY / "patroni.yml").read_text()
    made = re.findall(r"CREATE [^;]+;", text)
    assert len(made) == 2
    for statement in made:
        _ask(leader, statement)
    ports = [node.server.port for node in nodes]
    return f"postgresql://jobfarm:{PASSWORD}@127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}/jobfarm"


def _ask(node: Node, query: str) -> Any:
    """By the superuser: in the farm's database, or before it is there in the other."""
    name = "postgres" if query.startswith("CREATE") else "jobfarm"
    secret = PATRONI["postgresql"]["authentication"]["superuser"]["password"]
    about = f"host=127.0.0.1 port={node.server.port} user=postgres password={secret} dbname={name}"
    with psycopg.connect(about, autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        row = cursor.fetchone() if cursor.description else None
    return row[0] if row else None


def _is_well(port: int, path: str) -> bool:
    """Whether this address of a program answers 200; one that does not listen yet does not."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/{path}", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


@contextmanager
def _nodes() -> Iterator[list[Node]]:
    with ExitStack() as stack:
        folder = stack.enter_context(postgresqls.folder_of_its_own())
        client, peer = free_port(), free_port()
        _run(stack, folder / "etcd.yml", _etcd(folder, client, peer), "etcd", "--config-file")
        until(lambda: _is_well(client, "health"), within_s=20, what="etcd")
        nodes: list[Node] = []
        for name in ("db1", "db2"):
            nodes.append(_node(stack, name, client))
            try:
                until(lambda: any(node.says("leader") for node in nodes), within_s=60, what="a leader")
            except AssertionError:
                raise AssertionError(nodes[0].log()) from None
        yield nodes


def _etcd(folder: Path, client: int, peer: int) -> dict[str, Any]:
    """Ours, alone, on this machine."""
    text = yaml.safe_dump(ETCD | {"initial-cluster": ETCD["initial-cluster"].split(",")[0]})
    text = text.replace("10.0.0.21:2379", f"127.0.0.1:{client}").replace("10.0.0.21:2380", f"127.0.0.1:{peer}")
    found: dict[str, Any] = yaml.safe_load(text) | {"data-dir": f"{folder}/etcd"}
    return found


def _node(stack: ExitStack, name: str, etcd: int) -> Node:
    """Ours, with the addresses and folders of this machine."""
    folder = stack.enter_context(postgresqls.folder_of_its_own())
    api, port = free_port(), free_port()
    text = (DEPLOY / "patroni.yml").read_text()
    for ours, here in {"10.0.0.11:8008": f"127.0.0.1:{api}", "10.0.0.11:5432": f"127.0.0.1:{port}"}.items():
        text = text.replace(ours, here)
    settings = yaml.safe_load(text.replace("10.0.0.0/24", "127.0.0.1/32"))
    settings |= {"name": name, "etcd3": {"hosts": [f"127.0.0.1:{etcd}"]}}
    settings["postgresql"] |= {"data_dir": f"{folder}/data", "pgpass": f"{folder}/pgpass"}
    settings["postgresql"]["parameters"]["unix_socket_directories"] = str(folder)
    settings["watchdog"]["mode"] = "off"
    process = _run(stack, folder / "patroni.yml", settings, "patroni")
    return Node(name, api, Server(programs=DEBIAN_15, folder=folder, port=port), process)


def _run(stack: ExitStack, file: Path, settings: dict[str, Any], *command: str) -> "subprocess.Popen[bytes]":
    """A program with these settings, ended in order with the stack."""
    file.write_text(yaml.safe_dump(settings))
    if ACCOUNT:
        shutil.chown(file, ACCOUNT["user"])
    file.chmod(0o600)
    log = stack.enter_context(file.with_suffix(".log").open("wb"))
    process = subprocess.Popen(
        [*command, str(file)],
        stdout=log,
        stderr=log,
        cwd="/",
        env={"PATH": os.defpath, "HOME": str(file.parent), "LC_ALL": "C.UTF-8"},
        **ACCOUNT,
    )
    stack.callback(process.wait, 60)
    stack.callback(process.terminate)
    return process
