"""The examples of the OpenAPI document in Python and JavaScript, run as they stand."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User

from accounts import operations as accounts
from tests.api.edges.callers import Crew
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)

PICTURE = b"\x89PNG not really"


class Reader:
    """Somebody who copies an example, sets the variables and runs it."""

    def __init__(self, document: dict[str, Any], folder: Path, **variables: str) -> None:
        self.document = document
        self._folder = folder
        self.variables = variables

    def runs(self, language: str, method: str, path: str) -> Any:
        """What the example of this call prints, in whichever form its language prints an object."""
        text: str = self.document["paths"][path][method]["description"]
        [sample] = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
        return subprocess.run(
            self._command(language, sample), cwd=self._folder, check=True, capture_output=True, timeout=60,
            env={"PATH": "/usr/bin:/bin:/usr/local/bin", **self.variables},
        ).stdout.decode()  # fmt: skip

    def _command(self, language: str, sample: str) -> list[str]:
        if language == "python":
            return [sys.executable, "-c", sample]
        (self._folder / "sample.mjs").write_text(sample)
        node = shutil.which("node")
        assert node, "node is needed: scripts/test-tools installs it"
        return [node, "sample.mjs"]


@pytest.fixture
def reader(server: Server, crew: Crew, ada: User, tmp_path: Path) -> Reader:
    _, token = accounts.create_token(ada, name="samples")
    document = httpx.get(f"{server.url}/api/v1/openapi.json").json()
    (tmp_path / "picture.png").write_bytes(PICTURE)
    return Reader(document, tmp_path, FARM=server.url, KEY=crew.key, TOKEN=token)


@pytest.mark.landing
@pytest.mark.parametrize("language", ["python", "javascript"])
def test_a_job_is_done_by_them(reader: Reader, language: str) -> None:
    job = "/api/v1/worker/jobs/{job_id}"
    submitted = reader.runs(language, "post", "/api/v1/jobs")
    [number] = re.findall(r"\bid['\"]?: (\d+)", submitted)
    claimed = reader.runs(language, "post", "/api/v1/worker/claim")
    [lease] = re.findall(r"\blease['\"]?: ['\"]([^'\"]+)", claimed)
    reader.variables |= {"JOB": number, "LEASE": lease}
    assert "next_seq" in reader.runs(language, "post", f"{job}/output")
    assert "size" in reader.runs(language, "put", f"{job}/files/{{name}}")
    assert "in_progress" in reader.runs(language, "get", "/api/v1/jobs")
    assert "success" in reader.runs(language, "post", f"{job}/finish")
    assert "Once upon a time" in reader.runs(language, "get", "/api/v1/jobs/{job_id}/output")
    assert "event: end" in reader.runs(language, "get", "/api/v1/jobs/{job_id}/events")
    reader.runs(language, "get", "/api/v1/jobs/{job_id}/files/{name}")
    assert "too_late" in reader.runs(language, "post", "/api/v1/jobs/{job_id}/cancel")


def test_every_call_has_them(reader: Reader) -> None:
    for path, methods in reader.document["paths"].items():
        for method, call in methods.items():
            for language in ("python", "javascript"):
                assert call["description"].count(f"```{language}\n") == 1, (method, path)


def test_the_page_fits_a_phone(server: Server) -> None:
    page = httpx.get(f"{server.url}/api/docs").text
    assert 'name="viewport"' in page
    assert json.loads(re.findall(r"application/json[^>]*>(.*?)</script>", page, re.DOTALL)[0])["url"]
