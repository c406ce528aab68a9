"""The events of one answer: the chunks that the hub's messages bring, never of two attempts; what says that it is
awaited; and those of an answer that came whole, each item and each text in one piece, since clients add up pieces."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Self

from live.rendering import Page
from live.send_queue import Message
from openai_api import domain
from openai_api.domain import ENDS, EVENTS_OF_A_CLAIM, messages
from openai_api.http import Awaited

_LIVE: Final = {"in_progress": 0, "pending": 1}  # in the order in which a job of one claim is so
_TYPE: Final = re.compile(r"[a-z_.]{1,100}")
_EVENT_ID: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,9})")

# Of calls whose events are chunks: the beginning of an id, the object, and a choice that says nothing.
_CHUNKS: Final[Mapping[str, tuple[str, str, Mapping[str, Any]]]] = {
    "chat/completions": ("chatcmpl", "chat.completion.chunk", {"delta": {}}),
    "completions": ("cmpl", "text_completion", {"text": ""}),
}


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


def event(fields: Mapping[str, Any]) -> bytes:
    """An event of a stream with these fields, which may name it."""
    name = f"event: {fields['type']}\n" if "type" in fields else ""
    return f"{name}data: {json.dumps(fields)}\n\n".encode()


def silent_event(note: Awaited, transcript: Transcript, *, is_first: bool) -> bytes:
    """What a stream says while nothing comes, in the words of its call: clients that give up on a silent stream look at
    events, and not at comments. It adds nothing to the answer, and nobody resumes behind it."""
    return event(_silence(note, transcript, is_first=is_first))


def events_of(path: str, answer: Mapping[str, Any], *, number: int, is_begun: bool) -> Iterator[Mapping[str, Any]]:
    """The events that make this answer of a call at this path; those of a response are numbered from `number` on, and
    one that `is_begun` is not created again."""
    if path == messages.PATH:
        yield from messages.events(answer)
    elif path == domain.RESPONSES:
        made = [*_of_response(answer)][1 if is_begun else 0 :]
        yield from ({**event, "sequence_number": place} for place, event in enumerate(made, start=number))
    elif path in domain.AUDIO:
        yield {"type": "transcript.text.done", **answer}
    elif path == "chat/completions":
        choices = [_delta(choice) for choice in domain.objects(answer.get("choices"))]
        yield {**answer, "object": "chat.completion.chunk", "choices": choices}
    else:
        yield answer


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


def _silence(note: Awaited, transcript: Transcript, *, is_first: bool) -> dict[str, Any]:
    now = datetime.now(UTC)  # noqa: TID251 (as a model server says when it answers; nothing is compared with it)
    if note.path == messages.PATH:
        return {**messages.PING}
    if note.path == domain.RESPONSES:
        # A response begins with `created`, whoever says so first; its number is that of what the client has.
        kind = "created" if is_first and not transcript.passed else "in_progress"
        response = domain.response({"model": note.model}, job_id=note.job_id, status=transcript.status, created_at=now)
        number = max(transcript.next_number - 1, 0)
        return {"type": f"response.{kind}", "sequence_number": number, "response": response}
    if note.path not in _CHUNKS:
        return {"type": "transcript.text.delta", "delta": ""}
    prefix, kind, silence = _CHUNKS[note.path]
    made = {"id": f"{prefix}-{note.job_id}", "object": kind, "created": int(now.timestamp()), "model": note.model}
    head = {name: transcript.latest.get(name) or value for name, value in made.items()}
    return {**head, "choices": [{"index": 0, **silence, "logprobs": None, "finish_reason": None}]}


def _delta(choice: Mapping[str, Any]) -> dict[str, Any]:
    """A choice of a whole answer as one of a chunk."""
    message = choice["message"] if isinstance(choice.get("message"), Mapping) else {}
    calls = [{**call, "index": number} for number, call in enumerate(domain.objects(message.get("tool_calls")))]
    rest = {name: value for name, value in choice.items() if name != "message"}
    return {**rest, "delta": {**message, **({"tool_calls": calls} if calls else {})}}


def _of_response(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(domain.objects(response.get("output"))):
        parts = domain.objects(item.get("content"))
        opened = {**item, "status": "in_progress", **({"content": []} if parts else {})}
        yield {"type": "response.output_item.added", "output_index": index, "item": opened}
        for place, part in enumerate(parts):
            at = {"item_id": item.get("id"), "output_index": index, "content_index": place}
            yield from ({**at, **event} for event in _of_part(part))
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{response.get('status', 'completed')}", "response": response}


def _of_part(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    text = part["text"] if part.get("type") == "output_text" and isinstance(part.get("text"), str) else ""
    yield {"type": "response.content_part.added", "part": {**part, **({"text": ""} if text else {})}}
    if text:
        yield {"type": "response.output_text.delta", "delta": text, "logprobs": []}
        yield {"type": "response.output_text.done", "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", "part": part}
