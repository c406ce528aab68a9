"""Django's own tasks interface and the package it came from: whichever there is, its classes are the ones in use."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import django
import pytest

from scheduling import django_tasks
from scheduling.backend import SchedulingBackend

ROOT = Path(__file__).parents[3]
INTERFACE = "django.tasks" if django.VERSION >= (6,) else "django_tasks"
INVALID = "InvalidTask" if django.VERSION >= (6,) else "InvalidTaskError"

# A newer release, made of the installed one: all of it knows the class by its new name, and nobody by the old one.
NEWER = """
import sys
from importlib import import_module
import django
from django.core.management import call_command

interface, old, new = sys.argv[1:]
exceptions = import_module(f"{interface}.exceptions")
import_module(f"{interface}.backends.base")
setattr(exceptions, new, getattr(exceptions, old))
delattr(exceptions, old)
django.setup()
call_command("check")
from scheduling.backend import SchedulingBackend
from scheduling import django_tasks
try:
    SchedulingBackend("default", {}).get_result("nothing")
except django_tasks.TaskResultDoesNotExist as error:
    print(f"refused as {type(error).__name__}")
"""


class TestTheInterface:
    def test_is_djangos_own_from_django_6_on_and_the_package_before(self) -> None:
        backends, signals, base, exceptions = (
            import_module(f"{INTERFACE}.{name}") for name in ("backends.base", "signals", "base", "exceptions")
        )
        assert issubclass(SchedulingBackend, backends.BaseTaskBackend)
        assert issubclass(SchedulingBackend.task_class, base.Task)
        assert django_tasks.TaskResult is base.TaskResult
        assert django_tasks.task_finished is signals.task_finished
        assert django_tasks.InvalidTask is getattr(exceptions, INVALID)
        assert django_tasks.TaskResultDoesNotExist is exceptions.TaskResultDoesNotExist
        assert django_tasks.TaskResultMismatch is exceptions.TaskResultMismatch

    def test_of_the_package_is_not_loaded_beside_djangos_own(self) -> None:
        assert ("django_tasks" in sys.modules) is (django.VERSION < (6,))


@pytest.mark.landing
class TestARenamedError:
    @pytest.mark.parametrize(
        ("old", "new", "refused"),
        [
            (INVALID, "InvalidTaskOfNextYear", "TaskResultDoesNotExist"),
            (INVALID, "InvalidTask" if INVALID != "InvalidTask" else "InvalidTaskError", "TaskResultDoesNotExist"),
            ("TaskResultDoesNotExist", "NoSuchResult", "TaskResultDoesNotExist"),
            ("TaskResultMismatch", "OtherResult", "TaskResultDoesNotExist"),
        ],
    )
    def test_does_not_stop_the_site(self, old: str, new: str, refused: str) -> None:
        ran = subprocess.run(
            [sys.executable, "-c", NEWER, INTERFACE, old, new],
            cwd=ROOT,
            env={**_environment(), "DJANGO_SETTINGS_MODULE": "jobfarm.settings"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.splitlines()[-1] == f"refused as {refused}"


def _environment() -> dict[str, str]:
    import os

    return dict(os.environ)
