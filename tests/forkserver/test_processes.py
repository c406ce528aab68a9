"""A forked process is what a started one would be: it has the arguments, environment, folder, descriptors and end."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forkserver
from tests.forkserver import Process, run

WITHIN_S = 60.0
ABOUT_ITSELF = """
import os, sys
print(__name__, sys.argv, dict(os.environ), os.getcwd(), os.getsid(0) == os.getpid())
print("a complaint", file=sys.stderr)
sys.exit(3)
"""
OF_ITS_SETTINGS = """
import gc, sys
print("django.contrib.admin" in sys.modules)
import jobfarm.asgi
from django.conf import settings
print(settings.JOBFARM["LEASE_S"], settings.JOBFARM["HEARTBEAT_S"], settings.JOBFARM_URL)
"""


def settings_of(*, loaded: bool, **environment: str) -> list[str]:
    given = os.environ | {"DJANGO_SETTINGS_MODULE": "jobfarm.settings"} | environment
    done = run(["-c", OF_ITS_SETTINGS], env=given, timeout=WITHIN_S, loaded=loaded, check=True)
    return done.stdout.splitlines()


class TestAForkedProcess:
    def test_is_what_a_started_one_would_be(self, tmp_path: Path) -> None:
        argv, environment = ["-c", ABOUT_ITSELF, "one", "two"], {"LC_CTYPE": "C.UTF-8", "ONLY": "this"}
        done = run(argv, env=environment, cwd=tmp_path, timeout=WITHIN_S)
        started = subprocess.run(
            [sys.executable, *argv], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
            start_new_session=True,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (3, started.stdout, started.stderr)
        assert done.stdout.startswith("__main__ ['-c', 'one', 'two']")

    def test_puts_both_outputs_into_one(self) -> None:
        done = run(["-c", ABOUT_ITSELF], env={}, timeout=WITHIN_S, stderr=subprocess.STDOUT)
        assert (done.stdout.endswith("a complaint\n"), done.stderr) == (True, "")

    def test_runs_a_script_and_a_module(self, tmp_path: Path) -> None:
        (tmp_path / "beside.py").write_text("import sys\nprint(sys.argv[0], __name__)")
        (tmp_path / "script.py").write_text("import runpy\nprint(__file__)\nimport beside")
        script = run([str(tmp_path / "script.py")], env={}, cwd=Path("/"), timeout=WITHIN_S, check=True)
        path = tmp_path / "script.py"
        assert script.stdout.splitlines() == [str(path), f"{path} beside"]
        module = run(["-m", "beside"], env={}, cwd=tmp_path, timeout=WITHIN_S, check=True)
        assert module.stdout == f"{tmp_path / 'beside.py'} __main__\n"
        elsewhere = {"PYTHONPATH": str(tmp_path)}
        found = run(["-c", "import beside"], env=elsewhere, cwd=Path("/"), timeout=WITHIN_S, check=True)
        assert found.stdout == "-c beside\n"

    def test_has_the_descriptors_it_is_given_at_their_numbers(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            code = f"import os; os.write({theirs.fileno()}, b'hello')"
            Process(["-c", code], env={}, pass_fds=[theirs.fileno()]).wait(WITHIN_S)
            assert ours.recv(5) == b"hello"

    def test_ends_by_what_ended_it_and_not_before(self) -> None:
        process = Process(["-c", "import time; time.sleep(600)"], env={})
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.kill()
        assert (process.wait(WITHIN_S), process.poll()) == (-signal.SIGKILL, -signal.SIGKILL)
        process.terminate()  # harmless: nobody else may have its id

    def test_says_what_it_raised(self) -> None:
        done = run(["-W", "error::RuntimeWarning", "-c", "import warnings; warnings.warn('x', RuntimeWarning)"],
                   env={}, timeout=WITHIN_S)  # fmt: skip
        assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "RuntimeWarning: x")

    def test_that_takes_too_long_is_killed(self) -> None:
        with pytest.raises(subprocess.TimeoutExpired):
            run(["-c", "import time; time.sleep(600)"], env={}, timeout=0.01)

    def test_that_fails_is_an_error_for_who_checks(self) -> None:
        with pytest.raises(subprocess.CalledProcessError):
            run(["-c", "raise SystemExit(2)"], env={}, timeout=WITHIN_S, check=True)


class TestItsSettings:
    @pytest.mark.parametrize("loaded", [False, True])
    def test_are_those_of_its_own_environment(self, *, loaded: bool) -> None:
        for lease, url in (("61", "http://one"), ("62", "http://two"), ("61", "http://three")):
            found = settings_of(loaded=loaded, JOBFARM_LEASE_S=lease, JOBFARM_URL=url)
            assert found == [str(loaded), f"{float(lease)} 20.0 {url}"]

    def test_end_with_the_least_recently_used(self) -> None:
        for lease in range(70, 71 + forkserver.MOST_LOADED):
            assert settings_of(loaded=True, JOBFARM_LEASE_S=str(lease))[1].startswith(f"{float(lease)} ")
        assert len(forkserver._by_environment) == forkserver.MOST_LOADED

    def test_are_loaded_once_for_all_tests(self) -> None:
        one, two = (os.environ | {"PYTEST_CURRENT_TEST": name} for name in ("one", "two"))
        assert forkserver._with_django(one) is forkserver._with_django(two)
        done = run(
            ["-c", "import os; print(os.environ['PYTEST_CURRENT_TEST'])"], env=two, timeout=WITHIN_S, loaded=True
        )
        assert done.stdout == "two\n"
