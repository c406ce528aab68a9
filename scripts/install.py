"""Install packages into an environment as `pip install` does, from where pip is configured to look:

    python scripts/install.py PYTHON ARGUMENT...

With uv, which has the farm's packages in 14 s where pip takes 55. Where uv cannot be had, or pip is configured in a way
that uv does not know, or uv fails, pip does it, and says what is wrong if something is.
"""

import ast
import os
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
    sys.exit(main(str(Path(sys.argv[1]).absolute()), sys.argv[2:]))
