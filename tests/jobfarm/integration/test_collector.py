"""What the start of a process loads, and what the garbage collector leaves alone of it."""

import json
import subprocess
import sys

_THRESHOLD = """
import gc, json, sys
import jobfarm.asgi
is_loaded = "jobs.api" in sys.modules
print(json.dumps([gc.get_freeze_count(), len(gc.get_objects()), gc.get_threshold(), is_loaded, gc.isenabled()]))
"""
_THRESHOLD_OF_A_COMMAND = """
import gc, sys
from django.core.checks import run_checks
print(gc.get_freeze_count() > 100_000, gc.isenabled())
print("jobs.admin" in sys.modules, run_checks(tags=["admin"]), "jobs.admin" in sys.modules)
"""


class TestAServer:
    def test_exempts_from_collection_all_that_its_start_has_loaded(self) -> None:
        """Each full collection stopped everybody for a quarter of a second with a thousand pages open."""
        done = subprocess.run([sys.executable, "-c", _THRESHOLD], check=True, stdout=subprocess.PIPE)
        exempt, rest, thresholds, is_loaded, collects = json.loads(done.stdout)
        assert is_loaded
        assert collects
        assert exempt > 100 * rest
        assert thresholds == [10_000, 10, 10]


class TestACommand:
    def test_looks_for_no_garbage_while_it_starts_and_loads_the_administration_to_check_it(self) -> None:
        """Its start took half as long again: what it makes stays, and was looked through again and again."""
        command = [sys.executable, "manage.py", "shell", "--no-imports", "--command", _THRESHOLD_OF_A_COMMAND]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        assert done.stdout == "True True\nFalse [] True\n"
