"""How a handler hands in the answer of a call of OpenAI's API, with embeddings in the form that was asked for, and how
it passes on that the call was refused."""

import base64
import binascii
import json
import struct
from collections.abc import Mapping
from typing import Any

from jobfarm_client.wire import dumps
from jobfarm_worker.errors import Failed
from jobfarm_worker.handlers import spans
from jobfarm_worker.handlers.chunks import objects
from jobfarm_worker.job import Job
from jobfarm_worker.protocol import size_of_json, storable

FILE = "answer.json"
TEXT_FILE = "answer.txt"
LARGEST_RESULT = 64_000  # bytes: what is longer the farm passes on without reading it
LONGEST_REFUSAL = 15_000  # characters, of the 20,000 that are kept of an error
_SOUNDS = {
    "audio/mpeg": "mp3", "audio/wav": "wav", "audio/x-wav": "wav", "audio/opus": "opus", "audio/ogg": "ogg",
    "audio/aac": "aac", "audio/flac": "flac",
}  # fmt: skip
_ENDINGS = ((b"\xff\xd8", "jpg"), (b"RIFF", "webp"))  # by how the file begins; all others are PNG


def handed_in(job: Job, path: str, answer: Any) -> Any:
    """The result for this answer: itself, or the file that holds it. Pictures in it are handed in as files besides, so
    that the job's page shows them."""
    spans.note_answer(answer)
    if path.startswith("images/") and isinstance(answer, dict):
        for number, picture in enumerate(_pictures(answer)):
            ending = next((ending for start, ending in _ENDINGS if picture.startswith(start)), "png")
            job.file(f"image-{number}.{ending}", picture)
    if size_of_json(answer) <= LARGEST_RESULT:
        return answer
    job.file(FILE, dumps(answer).encode())
    # What the farm counts, and what it says of the answer itself.
    beside = {name: answer.get(name) for name in ("usage", "jobfarm")} if isinstance(answer, dict) else {}
    return {"answer_file": FILE} | {name: value for name, value in beside.items() if isinstance(value, dict)}


def handed_in_text(job: Job, text: str, *, content_type: str) -> dict[str, str]:
    """The result for an answer that is no JSON, such as subtitles: itself, or the file that holds it."""
    if size_of_json(text) <= LARGEST_RESULT:
        return {"answer_text": storable(text), "content_type": content_type}
    job.file(TEXT_FILE, text.encode())
    return {"answer_file": TEXT_FILE, "content_type": content_type}


def handed_in_sound(job: Job, sound: bytes, *, content_type: str) -> dict[str, str]:
    """The result for an answer that is spoken: the file that holds it."""
    kind = content_type.partition(";")[0].strip().lower()
    name = f"answer.{_SOUNDS.get(kind, 'pcm')}"
    job.file(name, sound)
    return {"answer_file": name, "content_type": kind}


def refused(status: int, body: dict[str, Any], *, message: str, retryable: bool) -> Failed:
    """The failure that the farm passes on to the caller: with this status and this body, word for word. Its form is
    known to the farm too: a sentence, and the body in the last line."""
    sentence = f"The model server answered {status}: {' '.join(message.split())}"[:1000]
    text = json.dumps(body)
    return Failed(sentence if len(text) > LONGEST_REFUSAL else f"{sentence}\n{text}", retryable=retryable)


def _pictures(answer: dict[str, Any]) -> list[bytes]:
    pictures = []
    for entry in answer.get("data") or ():
        text = entry.get("b64_json") if isinstance(entry, dict) else None
        if isinstance(text, str):
            try:
                pictures.append(base64.b64decode(text, validate=True))
            except (binascii.Error, ValueError):
                continue
    return pictures


def encoded(answer: Any, body: Mapping[str, Any]) -> Any:
    """The answer with its vectors as `encoding_format` says: lists of numbers, or these as floats in base64."""
    wanted = body.get("encoding_format") or "float"
    change = {"base64": _encoded, "float": _decoded}.get(str(wanted))
    if change is None or not isinstance(answer, dict) or not isinstance(answer.get("data"), list):
        return answer
    for entry in objects(answer["data"]):
        entry["embedding"] = change(entry.get("embedding"))
    return answer


def _encoded(vector: Any) -> Any:
    if not isinstance(vector, list):
        return vector
    try:
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    except (struct.error, OverflowError):  # no numbers: as the server has it
        return vector


def _decoded(vector: Any) -> Any:
    if not isinstance(vector, str):
        return vector
    try:
        data = base64.b64decode(vector, validate=True)
        return [*struct.unpack(f"<{len(data) // 4}f", data)]
    except (binascii.Error, ValueError, struct.error):
        return vector
