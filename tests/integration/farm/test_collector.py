"""What the garbage collector leaves alone in a process that serves."""

import json
import subprocess
import sys

_ASKED = """
import gc, json, sys
import jobfarm.asgi
print(json.dumps([gc.get_freeze_count(), len(gc.get_objects()), gc.get_threshold(), "jobs.api" in sys.modules]))
"""


class TestAServer:
    def test_exempts_from_collection_all_that_its_start_has_loaded(self) -> None:
        """Each full collection stopped everybody for a quarter of a second with a thousand pages open."""
        done = subprocess.run([sys.executable, "-c", _ASKED], check=True, stdout=subprocess.PIPE)
        exempt, rest, thresholds, is_loaded = json.loads(done.stdout)
        assert is_loaded
        assert exempt > 100 * rest
        assert thresholds == [10_000, 10, 10]
