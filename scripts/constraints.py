"""Write constraints.txt: a version for each package that the requirements, and those of the tests, bring along.

    .venv/bin/python -m scripts.constraints            # what is pinned stays; missing ones come, needless ones go
    .venv/bin/python -m scripts.constraints --upgrade  # the newest of each

By uv, from where pip is configured to look; the file names no such place.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from scripts import install

ROOT: Final = Path(__file__).parents[1]
CONSTRAINTS: Final = ROOT / "constraints.txt"
HEAD: Final = "# A version for each package that the requirements and those of the tests bring along.\n"
_LOOKS: Final = ("--universal", "--python-version", "3.11", "--no-header", "--no-annotate", "--strip-extras")


def requirements() -> str:
    """The requirements alone, without the lines that name other files."""
    files = [ROOT / name for name in ("requirements.txt", "requirements-dev.txt")]
    return re.sub(r"^-[rc] .*$", "", "".join(file.read_text() for file in files), flags=re.MULTILINE)


def main(more: list[str]) -> int:
    settings = install.configured(install.listed())
    settings.pop("constraint", None)  # of this machine
    places = install.options(settings)
    with tempfile.TemporaryDirectory() as folder:
        uv = install.installed_uv(folder)
        if uv is None or places is None:
            print("This needs uv, and settings of pip that uv knows.", file=sys.stderr)
            return 1
        pinned = Path(folder) / "constraints.txt"
        pinned.write_text(CONSTRAINTS.read_text() if CONSTRAINTS.exists() else "")
        command = [*uv, "compile", "-", "--quiet", *_LOOKS, *places, *install.STRATEGY, "--output-file", str(pinned)]
        environment = {**os.environ, **install.certified(settings.get("cert"))}
        done = subprocess.run(
            [*command, *more], cwd=ROOT, input=requirements(), text=True, env=environment, check=False
        )
        if not done.returncode:
            CONSTRAINTS.write_text(HEAD + pinned.read_text())
        return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
