"""How environments are filled: by uv from where pip is configured to look, else by pip."""

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts import install

ROOT = Path(__file__).parents[2]


def _wheel(folder: Path) -> None:
    """A package `tiny` of one module, 1.0."""
    info = "tiny-1.0.dist-info"
    files = {
        "tiny.py": b"SIZE = 1\n",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
        sums = {name: base64.urlsafe_b64encode(hashlib.sha256(content).digest()) for name, content in files.items()}
        lines = [f"{name},sha256={sums[name].decode().rstrip('=')},{len(files[name])}" for name in files]
        wheel.writestr(f"{info}/RECORD", "\n".join([*lines, f"{info}/RECORD,,", ""]))


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The Python of an empty environment without pip."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    return tmp_path / "venv" / "bin" / "python"


def _installed_by(python: Path, *arguments: str, **environment: str) -> str:
    """Which program has installed `tiny`."""
    _wheel(python.parents[2])
    given = {**os.environ, "PIP_FIND_LINKS": str(python.parents[2]), **environment}
    command = [sys.executable, "scripts/install.py", str(python), *arguments]
    subprocess.run(command, cwd=ROOT, env=given, check=True, timeout=300)
    code = "import importlib.metadata as m, tiny; print(m.distribution('tiny').read_text('INSTALLER').strip())"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.landing
def test_uv_installs_from_where_pip_looks(python: Path) -> None:
    assert _installed_by(python, "tiny==1.0") == "uv"
    assert [*python.parents[1].glob("lib/*/site-packages/__pycache__/tiny.*.pyc")]


@pytest.mark.landing
def test_pip_installs_where_its_settings_are_unknown_to_uv(python: Path) -> None:
    assert _installed_by(python, "tiny==1.0", PIP_NO_INDEX="1") == "pip"


@pytest.mark.landing
def test_pip_says_what_is_wrong(python: Path) -> None:
    command = [sys.executable, "scripts/install.py", str(python), "jobfarm-of-nobody==9"]
    given = {**os.environ, "PIP_NO_INDEX": "1"}
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode != 0
    assert "jobfarm-of-nobody" in done.stderr


def test_the_environment_counts_more_than_files() -> None:
    listed = ":env:.find-links='/b /c'\nglobal.find-links='/a'\nglobal.index-url='https://i/simple'\n"
    assert install.configured(listed) == {"find-links": "/b /c", "index-url": "https://i/simple"}


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, []),
        ({"timeout": "60", "cert": "/c.pem"}, []),
        ({"find-links": "/b /c"}, ["--find-links", "/b", "--find-links", "/c"]),
        (
            {"extra-index-url": "https://e/simple", "index-url": "https://i/simple"},
            ["--default-index", "https://i/simple", "--index", "https://e/simple"],
        ),
        ({"index-url": "https://i/simple", "trusted-host": "i"}, None),
        ({"no-index": "true"}, None),
    ],
)
def test_settings_of_pip_become_options_of_uv(settings: dict[str, str], options: list[str] | None) -> None:
    assert install.options(settings) == options
