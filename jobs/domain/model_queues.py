"""Queues of models: a worker that announces a model serves its queue, and no other worker's key has to name it."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final

from jobs.domain.kinds import NAME

MODELS: Final = "openai"  # whose key names this queue serves the queue of every model that it announces
PREFIX: Final = f"{MODELS}."
_NO_NAME: Final = re.compile(r"[^a-z0-9_.-]+")
_HASHED: Final = re.compile(r".*-[0-9a-f]{12}")
_SLUG_CHARACTERS: Final = 60


def queue_of_model(model: str) -> str:
    """The queue of the jobs for this model, the same in every process.

    What cannot be a queue's name as it is becomes one by a part of its SHA-256, so that no two models share a queue.
    """
    name = PREFIX + model
    if NAME.fullmatch(name) and not _HASHED.fullmatch(model):
        return name
    slug = _NO_NAME.sub("-", model.lower())[:_SLUG_CHARACTERS]
    return f"{PREFIX}{slug}-{hashlib.sha256(model.encode(errors='surrogatepass')).hexdigest()[:12]}"


def is_of_model(queue: str, *, kind_queue: str) -> bool:
    """Whether a job of a kind with this queue may wait in that one by the choice of its model alone."""
    return kind_queue == MODELS and queue.startswith(PREFIX)


def with_models(queues: Sequence[str], models: Iterable[str]) -> list[str]:
    """The home queues of a worker that announces these models now: those below `openai.` are replaced by theirs.

    Those of a key that does not name `openai` are left as they are: it serves the models whose queues it names.
    """
    if MODELS not in queues:
        return list(queues)
    own = [queue for queue in queues if not queue.startswith(PREFIX)]
    return [*own, *dict.fromkeys(map(queue_of_model, models))]
