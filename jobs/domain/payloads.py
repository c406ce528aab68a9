"""How large a payload may be, what a job is about, which files are pictures, and the call that submits a job."""

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from core.values import dumps
from jobs.domain.files import SHOWN
from jobs.errors import InvalidJson, PayloadTooLarge

PICTURES, SOUNDS, FILMS = (
    tuple(ending for ending, media_type in SHOWN.items() if media_type.startswith(kind))
    for kind in ("image/", "audio/", "video/")
)
TEXTS = (".txt", ".md", ".log", ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml", ".srt", ".vtt")
ABOUT = ("prompt", "title", "name", "url", "text")  # what a job is about, by the first of these keys
PREVIEW = "preview."  # how a worker names what only shows how far it is


def encoded(value: Any, *, limit_bytes: int, subject: str) -> str:
    """The JSON text of `value`, ready for a jsonb column. `subject` names it in the refusal.

    Raises PayloadTooLarge over `limit_bytes` of UTF-8, InvalidJson for what jsonb cannot hold (`core.values.dumps`).
    """
    try:
        text = dumps(value)
    except ValueError as error:
        raise InvalidJson(what=subject, why=str(error)) from None
    size = len(text) if text.isascii() else len(text.encode())
    if size > limit_bytes:
        raise PayloadTooLarge(what=subject, size=size, limit=limit_bytes)
    return text


def title(payload: Any) -> str:
    """What a job is about, by the first key of `ABOUT` that holds a text; empty if none does."""
    texts = [payload.get(key) for key in ABOUT] if isinstance(payload, dict) else []
    return next((text for text in texts if isinstance(text, str) and text), "")


def pictures(names: Iterable[str], *, has_ended: bool) -> list[str]:
    """Those of these files that a page shows as pictures, in their order.

    Previews are shown while a job runs; once it has ended they give way to the picture, if there is one.
    """
    matches = [name for name in names if name.lower().endswith(PICTURES)]
    finished = [name for name in matches if not name.startswith(PREVIEW)]
    return finished if has_ended and finished else matches


def shown_as(name: str) -> str:
    """How a page shows a file of this name that is no picture: "audio", "video", "text", or "" for not at all."""
    for kind, endings in (("audio", SOUNDS), ("video", FILMS), ("text", TEXTS)):
        if name.lower().endswith(endings):
            return kind
    return ""


def curl(url: str, body: Mapping[str, Any]) -> str:
    """Return a command for a POSIX shell that posts `body` to `url`. Its token stands in the environment, as
    JOBFARM_TOKEN: what is pasted into a ticket holds no secret."""
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
