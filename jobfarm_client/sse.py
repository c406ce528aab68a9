"""Server-sent events: from the text of a stream to events, whichever way the network cut it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from jobfarm_client.errors import Unreachable
from jobfarm_client.models import Event


class Parser:
    """Takes a stream's text piece by piece (HTML Living Standard, 9.2.6; our farms end lines by a line feed)."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, text: str) -> Iterator[Event]:
        """The events that are complete with this text; comments and retry times are none. Raises Unreachable for what
        cannot be read."""
        *blocks, self._rest = (self._rest + text).split("\n\n")
        for block in blocks:
            if (event := _event(block)) is not None:
                yield event


def _event(block: str) -> Event | None:
    fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and line[0] != ":")
    if "data" not in fields:
        return None
    try:
        data = json.loads(fields["data"])
    except ValueError as error:
        raise Unreachable("An event came that cannot be read.") from error
    return Event(name=fields.get("event", "message"), id=fields.get("id", ""), data=data)
