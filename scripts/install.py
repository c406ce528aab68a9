"""Install packages into an environment as `pip install` does, from where pip is configured to look:

    python scripts/install.py PYTHON ARGUMENT...

With uv, which has the farm's packages in 14 s where pip takes 55. Where uv cannot be had, or pip is configured in a way
that uv does not know, or uv fails, pip does it, and says what is wrong if something is. And write constraints.txt, a
version for each package that the requirements and those of the tests bring along, by uv alone:

    python scripts/install.py --constraints            # what is pinned stays; missing ones come, needless ones go
    python scripts/install.py --constraints --upgrade  # the newest of each
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

UV: Final = "uv==0.13.9"
_PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check")
# pip takes the best version of all places, uv that of the first which has one.
STRATEGY: Final = ("--index-strategy", "unsafe-best-match")
_ROOT: Final = Path(__file__).parents[1]
_CONSTRAINTS: Final = _ROOT / "constraints.txt"
_HEAD: Final = "# A version for each package that the requirements and those of the tests bring along.\n"
_LOOKS: Final = ("--universal", "--python-version", "3.11", "--no-header", "--no-annotate", "--strip-extras")
# Settings of pip that say where packages come from, and uv's options for them; each may name several places.
_PLACES: Final = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "constraint": "--constraints",
}
# Those that change nothing of what is installed; the certificates go by the environment.
_HARMLESS: Final = {
    *("cert", "default-timeout", "timeout", "cache-dir", "no-cache-dir", "disable-pip-version-check"),
    *("progress-bar", "quiet", "no-input", "root-user-action", "break-system-packages"),
}


def configured(listed: str) -> dict[str, str]:
    """What `pip config list` says, by the names of the settings; the environment counts more than files."""
    settings: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        name, is_setting, value = line.partition("=")
        if is_setting:
            settings[name.rpartition(".")[2]] = str(ast.literal_eval(value))
    return settings


def options(settings: Mapping[str, str]) -> list[str] | None:
    """uv's options for these settings of pip; None where there are some that uv does not know."""
    if settings.keys() - _PLACES.keys() - _HARMLESS:
        return None
    places = [(_PLACES[name], place) for name in _PLACES for place in settings.get(name, "").split()]
    return [word for place in places for word in place]


def main(python: str, arguments: list[str]) -> int:
    settings = configured(listed())
    places = options(settings)
    if places is not None and _by_uv(python, [*places, *arguments], cert=settings.get("cert")):
        return 0
    return subprocess.run([*_PIP, "--python", python, "install", "--quiet", *arguments], check=False).returncode


def constrain(more: list[str]) -> int:
    settings = configured(listed())
    settings.pop("constraint", None)  # of this machine
    places = options(settings)
    with tempfile.TemporaryDirectory() as folder:
        uv = installed_uv(folder)
        if uv is None or places is None:
            sys.exit("This needs uv, and settings of pip that uv knows.")
        pinned = Path(folder) / "constraints.txt"
        pinned.write_text(_CONSTRAINTS.read_text() if _CONSTRAINTS.exists() else "")
        command = [*uv, "compile", "-", "--quiet", *_LOOKS, *places, *STRATEGY, "--output-file", str(pinned), *more]
        given = {**os.environ, **certified(settings.get("cert"))}
        done = subprocess.run(command, cwd=_ROOT, input=_requirements(), text=True, env=given, check=False)
        if not done.returncode:
            _CONSTRAINTS.write_text(_HEAD + pinned.read_text())
    return done.returncode


def _requirements() -> str:
    """The requirements alone, without the lines that name other files."""
    files = [_ROOT / name for name in ("requirements.txt", "requirements-dev.txt")]
    return re.sub(r"^-[rc] .*$", "", "".join(file.read_text() for file in files), flags=re.MULTILINE)


def _by_uv(python: str, arguments: list[str], *, cert: str | None) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return (uv := installed_uv(folder)) is not None and _succeeds(
            [*uv, "install", "--quiet", "--python", python, *_compiled(arguments), *arguments, *STRATEGY],
            certified(cert),
        )


def installed_uv(folder: str) -> list[str] | None:
    """`uv pip` as words of a command line, installed into this folder; None where it cannot be had."""
    get = [*_PIP, "install", "--quiet", "--no-compile", "--target", folder, UV]
    return [f"{folder}/bin/uv", "pip"] if _succeeds(get, {}) else None


def certified(cert: str | None) -> dict[str, str]:
    return {} if cert is None else {"SSL_CERT_FILE": cert}


def listed() -> str:
    return subprocess.run([*_PIP, "config", "list"], capture_output=True, text=True, check=False).stdout


def _compiled(arguments: list[str]) -> list[str]:
    """As pip does, unless requirements not to: who runs a farm may not write into its environment."""
    return [] if "--no-compile" in arguments else ["--compile-bytecode"]


def _succeeds(command: list[str], more: Mapping[str, str]) -> bool:
    try:
        return not subprocess.run(command, env={**os.environ, **more}, capture_output=True, check=False).returncode
    except OSError:
        return False


if __name__ == "__main__":
    _, first, *others = sys.argv
    sys.exit(constrain(others) if first == "--constraints" else main(str(Path(first).absolute()), others))
