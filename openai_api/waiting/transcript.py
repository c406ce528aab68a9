"""From the hub's messages to the chunks of one answer: never of two attempts."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Self

from live.rendering import Page
from live.send_queue import Message
from openai_api.domain import ENDS, EVENTS_OF_A_CLAIM

_LIVE: Final = {"in_progress": 0, "pending": 1}  # in the order in which a job of one claim is so
_TYPE: Final = re.compile(r"[a-z_.]{1,100}")
_EVENT_ID: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,9})")


class Transcript:
    """How far one caller is in the answer of a job. Each line of an attempt's output is a chunk (a JSON object).

    Chunks are passed on of one attempt alone. Until the first one was, a later attempt takes the place of an earlier,
    which nobody notices; afterwards the answer `is_broken`.
    """

    def __init__(self, *, fence: int = 0, passed: int = 0) -> None:
        """`passed` is how many chunks of the attempt with this `fence` the caller has.

        Of who waits for the end alone, `reads_output` is set to False.
        """
        self._fence = fence
        self._passed = passed
        self._lines = 0
        self._partial = ""
        self._next_seq = 0
        self._job: Mapping[str, Any] = {"status": "pending", "fence": 0, "written": 0}  # until it is known
        self.reads_output = True
        self.is_typed = False  # whether its events are named, as what each line is
        # That it is complete is said when the job has succeeded: who reads it may at once continue that response.
        self._held = b""
        self.is_gone = False
        self.latest: Mapping[str, Any] = {}  # the chunk that was passed on last

    @classmethod
    def resumed(cls, last_event_id: str) -> Self:
        """Where the caller of this `Last-Event-ID` left off; the beginning for what is no id of ours."""
        match = _EVENT_ID.fullmatch(last_event_id)
        return cls(fence=int(match[1]), passed=int(match[2])) if match and int(match[2]) else cls()

    @classmethod
    def behind(cls, number: int) -> Self:
        """Where the caller of a response left off that has the event with this `sequence_number`."""
        claim, place = divmod(number, EVENTS_OF_A_CLAIM)
        return cls(fence=claim + 1, passed=place + 1)

    @property
    def passed(self) -> int:
        """How many chunks were passed on, those that the caller had before included."""
        return self._passed

    @property
    def has_passed(self) -> bool:
        return self._passed > 0

    @property
    def status(self) -> str:
        """The job's, as far as it is known."""
        return str(self._job["status"])

    @property
    def next_number(self) -> int:
        """The `sequence_number` of the event that comes next."""
        return max(self._fence - 1, 0) * EVENTS_OF_A_CLAIM + self._passed

    @property
    def cursor(self) -> str | None:
        """After which piece of output to begin to read, as the stream `job-output` numbers them."""
        return f"{self._fence}:-1" if self._passed else None

    @property
    def has_ended(self) -> bool:
        if self._job["status"] in _LIVE:
            return False
        if self._job["status"] != "success" or not (self._job["written"] and self.reads_output):
            return True
        is_whole: bool = (self._fence, self._next_seq) >= (self._job["fence"], self._job["written"])
        return is_whole

    @property
    def is_success(self) -> bool:
        """Whether it ended as a success, of which this caller got chunks."""
        return self._passed > 0 and self._job["status"] == "success"

    @property
    def is_broken(self) -> bool:
        """Whether the caller has chunks of an attempt that is over without having succeeded."""
        if not self._passed:
            return False
        fence: int = self._job["fence"]
        return fence > self._fence or (self._job["status"] == "pending" and fence == self._fence)

    @property
    def is_over(self) -> bool:
        return self.is_gone or self.is_broken or self.has_ended

    def take(self, messages: Sequence[Message]) -> Iterator[bytes]:
        """The events that these messages make: how the job stands first, since it says whose output counts."""
        for message in messages:
            if message.kind == "data":
                self._job = max(json.loads(message.encoded), self._job, key=_moment)
            elif message.page is None:
                self.is_gone = True
        for message in messages:
            if message.page is not None:
                yield from self._output(message.page)
        if self._held and self._job["status"] == "success":
            yield self._held
            self._held = b""

    def _output(self, page: Page) -> Iterator[bytes]:
        for item in page.items:
            piece = item.data
            if self._counts(piece["fence"]):
                self._next_seq = piece["seq"] + 1
                yield from self._chunks(piece["text"], page.shared)

    def _counts(self, fence: int) -> bool:
        """Whether output of this claim is the answer's; of a later one than before, it begins anew."""
        if self._passed:
            return fence == self._fence
        if fence < self._fence or not self._may_succeed(fence):
            return False
        if fence > self._fence:
            self._fence, self._lines, self._partial = fence, 0, ""
        return True

    def _may_succeed(self, fence: int) -> bool:
        """Whether this claim's attempt runs or succeeded, as far as is known: what it wrote may be the answer."""
        known = self._job["fence"]
        return fence > known or (fence == known and self._job["status"] in {"in_progress", "success"})

    def _chunks(self, text: str, known: dict[str, Mapping[str, Any] | None]) -> Iterator[bytes]:
        """Lines that another caller has read are `known`."""
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            if line not in known:
                known[line] = _object(line)
            chunk = known[line]
            if chunk is None:
                continue
            self._lines += 1
            if self._lines > self._passed:
                self._passed, self.latest = self._lines, chunk
                event = self._event(chunk, line)
                if self.is_typed and str(chunk.get("type")) in ENDS:
                    self._held = event
                else:
                    yield event

    def _event(self, chunk: Mapping[str, Any], line: str) -> bytes:
        is_named = self.is_typed and _TYPE.fullmatch(str(chunk.get("type")))
        name = f"event: {chunk['type']}\n" if is_named else ""
        return f"{name}id: {self._fence}.{self._lines}\ndata: {line}\n\n".encode()


def _object(line: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _moment(job: Mapping[str, Any]) -> tuple[bool, int, int]:
    """Of two messages about a job the later one has the greater: what is handed over comes beside what is read. An end
    is the last, also of a job whose later claim a killed database has lost."""
    return job["status"] not in _LIVE, job["fence"], _LIVE.get(job["status"], 0)
