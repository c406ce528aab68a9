"""The call that submits a job, as text to paste: for a shell, and as Python.

The token stands in the environment, as JOBFARM_TOKEN: what is pasted into a ticket holds no secret.
"""

import json
import shlex
from collections.abc import Mapping
from typing import Any


def curl(url: str, body: Mapping[str, Any]) -> str:
    """Return a command for a POSIX shell that posts `body` to `url`."""
    return (
        f"curl --fail-with-body {shlex.quote(url)} \\\n"
        '  -H "Authorization: Bearer $JOBFARM_TOKEN" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        f"  --data-raw {shlex.quote(json.dumps(body, ensure_ascii=False))}"
    )


def python(url: str, body: Mapping[str, Any]) -> str:
    """Return a program that posts `body` to `url` with httpx and prints the job."""
    return (
        "import os\n\nimport httpx\n\n"
        "answer = httpx.post(\n"
        f"    {url!r},\n"
        '    headers={"Authorization": f"Bearer {os.environ[\'JOBFARM_TOKEN\']}"},\n'
        f"    json={dict(body)!r},\n"
        ")\n"
        "answer.raise_for_status()\n"
        "print(answer.json())\n"
    )
