"""Server-sent events: from the text of a stream to events, whichever way the network cut it."""

import json
from collections.abc import Iterator

from jobfarm_client.errors import Unreachable
from jobfarm_client.models import Event


class Blocks:
    """Takes a stream's text piece by piece (HTML Living Standard, 9.2.6): lines end by CR, LF or both."""

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id  # how far the stream is: an id goes for what comes after it, and needs no data
        self._rest: list[str] = []  # of a line that has not ended
        self._is_after_return = False
        self._fields: dict[str, str] = {}
        self._data: list[str] = []  # its lines, joined once: an event may have many

    def feed(self, text: str) -> Iterator[dict[str, str]]:
        """The fields of each event that is complete with this text, `data` always among them."""
        for line in self._lines(text):
            if line:
                self._take(line)
                continue
            fields, data, self._fields, self._data = self._fields, self._data, {}, []
            self.last_id = fields.get("id", self.last_id)
            if data:
                yield {**fields, "data": "\n".join(data)}

    def _lines(self, text: str) -> Iterator[str]:
        if self._is_after_return and text:
            text = text.removeprefix("\n")  # the other half of the end of a line
            self._is_after_return = False
        if "\n" not in text and "\r" not in text:
            self._rest.append(text)
            return
        self._is_after_return = text.endswith("\r")
        first, *others = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        *lines, rest = ["".join((*self._rest, first)), *others]
        self._rest = [rest]
        yield from lines

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name:  # else it is a comment
            self._fields[name] = value


class Parser:
    """The events of a farm's stream that goes on behind `last_id`."""

    def __init__(self, last_id: str = "") -> None:
        self._blocks = Blocks(last_id)

    @property
    def last_id(self) -> str:
        return self._blocks.last_id

    def feed(self, text: str) -> Iterator[Event]:
        """The events that are complete with this text; comments and retry times are none. Raises Unreachable for what
        cannot be read."""
        return map(self._event, self._blocks.feed(text))

    def _event(self, fields: dict[str, str]) -> Event:
        try:
            data = json.loads(fields["data"])
        except ValueError as error:
            raise Unreachable("An event came that cannot be read.") from error
        return Event(name=fields.get("event", "message"), id=self.last_id, data=data)
