"""deploy/compose.yaml without containers: its PostgreSQL, its pooler, its migration and a web node of it run here."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from tests.forkserver import ROOT
from tests.live.integration.conftest import running_redis
from tests.operations import compositions
from tests.operations.compositions import COMPOSE, DEPLOY, SERVICES, Place
from tests.ports import free_port

PASSWORD = "p/a:s@s%w0rd"  # each of these means something in an address
UP_WITHIN_S = 60.0
# Of the Compose specification (https://github.com/compose-spec/compose-spec): what is misspelt is not among these.
OF_SERVICES = {
    "build", "command", "depends_on", "deploy", "entrypoint", "env_file", "environment", "healthcheck", "image",
    "ports", "restart", "stop_grace_period", "volumes",
}  # fmt: skip
OF_PARTS = {
    "build": {"context", "dockerfile", "dockerfile_inline"},
    "deploy": {"replicas"},
    "healthcheck": {"test", "interval", "retries", "start_period", "timeout"},
}


@pytest.fixture(scope="module")
def variables() -> dict[str, str]:
    """What deploy/.env has."""
    return compositions.env_file(PASSWORD)


@pytest.fixture(scope="module")
def place(variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with ExitStack() as stack:
        server = stack.enter_context(compositions.postgres(PASSWORD))
        files, redis_port = tmp_path_factory.mktemp("files"), free_port()
        stack.enter_context(running_redis(redis_port, tmp_path_factory.mktemp("redis")))
        made = Place(postgres=server, pooler_port=free_port(), redis_port=redis_port, files=files)
        stack.enter_context(compositions.pgbouncer(made, variables))
        yield made


def manage(words: list[str], place: Place, variables: dict[str, str], service: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "manage.py", *words], cwd=ROOT, env=compositions.environment(service, place, variables),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


class TestCompose:
    def test_has_only_keys_of_the_specification(self) -> None:
        for name, service in SERVICES.items():
            assert set(service) <= OF_SERVICES, name
            for part, keys in OF_PARTS.items():
                assert set(service.get(part, {})) <= keys, f"{name}: {part}"
        assert set(COMPOSE) == {"name", "x-farm", "services", "volumes"}

    def test_names_only_variables_that_its_env_file_has(self, variables: dict[str, str]) -> None:
        named = set(re.findall(r"(?<!\$)\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))
        assert named == {"POSTGRES_PASSWORD", "FARM_ADDRESS"}
        assert named <= set(variables)

    def test_has_a_pooler_that_lets_in_who_knows_the_password_and_plans_as_the_farm_wants(self, place: Place) -> None:
        about = f"host=127.0.0.1 port={place.pooler_port} dbname=jobfarm user=jobfarm"
        with psycopg.connect(about, password=PASSWORD, prepare_threshold=None) as connection:
            settings = [connection.execute(f"SHOW {name}").fetchone() for name in ("jit", "plan_cache_mode")]
        assert settings == [("off",), ("force_generic_plan",)]
        with pytest.raises(psycopg.OperationalError, match=r"password|SASL"):
            psycopg.connect(about, password="another")

    @pytest.mark.landing
    def test_migrates_and_then_serves(self, place: Place, variables: dict[str, str]) -> None:
        migrate = manage(SERVICES["migrate"]["command"], place, variables, "migrate")
        output, _ = migrate.communicate(timeout=300)
        assert migrate.returncode == 0, output
        port = str(free_port())
        words = [{"8000": port, "0.0.0.0": "127.0.0.1"}.get(word, word) for word in SERVICES["web1"]["command"]]
        web = manage(words, place, variables, "web1")
        try:
            _becomes_healthy(web, port)
        finally:
            web.terminate()
            output, _ = web.communicate(timeout=60)
        assert "Traceback" not in output, output

    @pytest.mark.parametrize("password", ['with "quotes"', "with $HOME and `date`", "%s\\n"])
    def test_writes_the_pooler_s_list_for_any_password(self, password: str, tmp_path: Path) -> None:
        """In auth_file a quotation mark is written twice (https://www.pgbouncer.org/config.html, auth file format)."""
        [line] = SERVICES["pgbouncer"]["command"]
        line = compositions.filled_in(line, {}).replace("/tmp/userlist.txt", str(tmp_path / "list"))
        line = line.replace("exec pgbouncer", "true")
        entrypoint = SERVICES["pgbouncer"]["entrypoint"]
        subprocess.run([*entrypoint, line], env={"PATH": "/usr/bin:/bin", "PASSWORD": password}, check=True)
        doubled = password.replace('"', '""')
        assert (tmp_path / "list").read_text() == f'"jobfarm" "{doubled}"\n'


def _becomes_healthy(web: "subprocess.Popen[str]", port: str) -> None:
    """The service's own check of its health, until it is content."""
    kind, *words = SERVICES["web1"]["healthcheck"]["test"]
    assert (kind, words[0]) == ("CMD", "python")
    words = [sys.executable, *(word.replace(":8000/", f":{port}/") for word in words[1:])]
    end = time.monotonic() + UP_WITHIN_S
    while subprocess.run(words, capture_output=True, check=False).returncode:
        assert web.poll() is None, web.communicate()[0]
        assert time.monotonic() < end
