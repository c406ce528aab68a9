"""The note in which a farm keeps what it runs, for the next start to clean up after a kill."""

import json
import time
from pathlib import Path

from jobfarm.processes import Child, Supervisor


class TestTheNote:
    def test_is_replaced_and_never_half_written(self, tmp_path: Path) -> None:
        """Who reads it, or kills the farm, while it is written must not find a part of it."""
        note = tmp_path / "farm.json"
        note.write_text('["of before"]')
        child = Child(name="one", argv=["sleep", "60"])
        with note.open() as opened:
            Supervisor([child], folder=tmp_path, report=print)._tend(now=time.monotonic())
            assert opened.read() == '["of before"]'
        [entry] = json.loads(note.read_text())
        assert child.process is not None
        assert (entry["name"], entry["pid"]) == ("one", child.process.pid)
        assert [path.name for path in tmp_path.iterdir()] == ["farm.json"]
        child.end()

    def test_of_a_first_start_makes_its_folder(self, tmp_path: Path) -> None:
        """With a key in SECRET_KEY, and a database that lies elsewhere, nothing else has made it."""
        folder = tmp_path / "some" / "folder"
        child = Child(name="one", argv=["sleep", "60"])
        Supervisor([child], folder=folder, report=print)._tend(now=time.monotonic())
        assert child.process is not None
        child.end()
        assert [path.name for path in folder.iterdir()] == ["farm.json"]
