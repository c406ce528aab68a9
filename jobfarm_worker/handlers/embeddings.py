"""Embeddings in the form that was asked for, whatever form a model server knows."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from typing import Any

from jobfarm_worker.handlers.chunks import objects


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
