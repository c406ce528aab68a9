"""How fast a streamed answer comes, for the numbers of this process."""

import time
from collections.abc import Mapping
from typing import Any

from observing import numbers
from openai_api import domain


class Pace:
    """When the first token of an answer came (a role or a status is none) and when the last, by monotonic time."""

    def __init__(self) -> None:
        self._began_s = self._last_s = time.monotonic()
        self._first_s = 0.0
        self._model = ""
        self._chunks = 0

    def is_first(self, chunk: Mapping[str, Any]) -> bool:
        """Whether the first token has come just now, with this chunk."""
        self._last_s = time.monotonic()
        return not self._first_s and bool(domain.text_of(chunk))

    def begin(self, model: str, *, chunks: int) -> None:
        """Count the first token, of this model; so many chunks came until then."""
        self._first_s, self._model, self._chunks = self._last_s, numbers.label_of_model(model), chunks
        numbers.FIRST_TOKEN_SECONDS.labels(self._model).observe(self._first_s - self._began_s)

    def end(self, *, chunks: int) -> None:
        """Count the mean time of the chunks after it: an answer of so many is complete."""
        if self._first_s and (more := chunks - self._chunks) > 0:
            per_chunk_s = (self._last_s - self._first_s) / more
            numbers.OUTPUT_TOKEN_SECONDS.labels(numbers.label_of_model(self._model)).observe(per_chunk_s)
