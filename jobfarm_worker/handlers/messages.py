"""The events of a streamed answer of Anthropic's Messages API: those of a server that has `/messages`, or made of the
chunks of a chat. Put together they are what the same call gets without `stream`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jobfarm_client.wire import object_in
from jobfarm_worker.handlers import chunks
from jobfarm_worker.handlers.messages_request import chat_request
from jobfarm_worker.job import Job

Event = dict[str, Any]
_STOPS: Final = {
    "stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "function_call": "tool_use",
    "content_filter": "refusal",
}  # fmt: skip
_FAILURES: Final = ("abort", "error")
# Of each sort of block: what its pieces are called, and the field of a piece that holds it.
_PIECES: Final = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}
_TOKENS: Final = frozenset({"content_block_delta", "message_delta", "message_stop"})


class PassedMessage(chunks.Streamed):
    """A message of a server that has `/messages`: its events as they are, but for its pings, since the farm sends its
    own."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, chunks.GrowingText] = {}

    @property
    def model(self) -> str:  # type: ignore[override]
        return str(self._message.get("model", ""))

    def lines(self, event: Mapping[str, Any]) -> list[str]:
        kind = event.get("type")
        if kind == "ping":
            return []
        self._take(event)
        self.has_token = self.has_token or kind in _TOKENS
        self.is_finished = self.is_finished or (kind == "message_stop" and not self.failure)
        return [chunks.line(event)]

    def answer(self) -> dict[str, Any]:
        content = [_whole(block, self._inputs.get(index)) for index, block in sorted(self._blocks.items())]
        answer: dict[str, Any] = chunks.storable_json({**self._message, "content": content})
        return answer

    def _take(self, event: Mapping[str, Any]) -> None:
        delta = chunks.as_object(event.get("delta"))
        match event.get("type"):
            case "message_start":
                self._message = {**chunks.as_object(event.get("message"))}
            case "content_block_start":
                self._blocks[chunks.index_of(event)] = {**chunks.as_object(event.get("content_block"))}
            case "content_block_delta":
                self._grow(chunks.index_of(event), delta)
            case "message_delta":
                self._message |= delta
                usage = chunks.as_object(event.get("usage"))
                counted = {name: value for name, value in usage.items() if value is not None}
                self._message["usage"] = chunks.as_object(self._message.get("usage")) | counted

    def _grow(self, index: int, delta: Mapping[str, Any]) -> None:
        block = self._blocks.setdefault(index, {})
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                block["text"] = _continued(block.get("text"), text)
            case {"type": "thinking_delta", "thinking": str(text)}:
                block["thinking"] = _continued(block.get("thinking"), text)
            case {"type": "input_json_delta", "partial_json": str(text)}:
                self._inputs[index] = _continued(self._inputs.get(index), text)
            case {"type": "signature_delta", "signature": signature}:
                block["signature"] = signature
            case {"type": "citations_delta", "citation": citation}:
                block["citations"] = [*(block.get("citations") or ()), citation]


@dataclass(slots=True)
class _Block:
    """A block of content that grows: `begin` is how it starts, `unsent` what came and is in no event yet."""

    begin: dict[str, Any]
    text: chunks.GrowingText = field(default_factory=chunks.GrowingText)
    unsent: chunks.GrowingText = field(default_factory=chunks.GrowingText)
    is_open: bool = False

    def add(self, piece: Any) -> None:
        if isinstance(piece, str):
            self.text += piece
            self.unsent += piece

    @property
    def kind(self) -> str:
        return str(self.begin["type"])

    @property
    def is_whole(self) -> bool:
        """Whether nothing more of it comes, once another block has begun: pieces of calls may come in any order."""
        return self.kind != "tool_use" or (self.is_named and object_in(str(self.text)) is not None)

    @property
    def is_named(self) -> bool:
        """Whether it can begin: some servers name a tool after the id of its call."""
        return self.begin.get("name") != ""


def as_chat(job: Job, body: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[], "MappedMessage"]]:
    """The chat to ask for in place of this message, and what makes the message of its chunks. Raises Failed, for
    good."""
    chat, notes = chat_request(body)
    return chat, lambda: MappedMessage(body, notes=[*notes], job_id=job.id)


class MappedMessage(PassedMessage):
    """A message from the chunks of a chat. Its first choice is the message; others are left out. Blocks come one
    behind the other: a call of a tool that begins while another is not whole yet waits for that."""

    def __init__(self, body: Mapping[str, Any], *, notes: list[str], job_id: int) -> None:
        super().__init__()
        self._request = body
        self._notes = notes
        self._job_id = job_id
        self._queue: list[_Block] = []
        self._at = 0  # the block whose events are due
        self._calls: dict[int, _Block] = {}
        self._call_numbers = chunks.CallNumbers()
        self._stop: dict[str, Any] = {}
        self._usage: dict[str, Any] = {"input_tokens": 0, "output_tokens": 0}

    def lines(self, chunk: Mapping[str, Any]) -> list[str]:
        return self._taken(self._events(chunk))

    def supply_finish(self) -> list[str]:
        """The server said that this is all, and not why: no events, since the last ones are made in `closing`."""
        self._end("stop", None)
        self._notes.append(chunks.FINISH_SUPPLIED)
        return []

    def closing(self) -> list[str]:
        return self._taken(self._last_events())

    def take_whole(self, completion: Mapping[str, Any]) -> None:
        choices = [chunks.as_delta(choice) for choice in chunks.objects(completion.get("choices"))]
        self.lines({**completion, "choices": choices})
        if not (self.is_finished or self.failure):
            self.supply_finish()
        self.closing()

    def answer(self) -> dict[str, Any]:
        return {**super().answer(), **({"jobfarm": {"notes": self._notes}} if self._notes else {})}

    def _taken(self, events: Iterable[Event]) -> list[str]:
        taken = [line for event in events for line in PassedMessage.lines(self, event)]
        self.has_token = self.has_token or self.is_finished
        return taken

    def _events(self, chunk: Mapping[str, Any]) -> Iterator[Event]:
        if (counted := chunks.usage_of(chunk)) is not None:
            self._usage = _usage(counted)
        if not self._message:
            yield {"type": "message_start", "message": self._begun(chunk)}
        for choice in chunks.objects(chunk.get("choices")):
            if not choice.get("index"):
                self._add(chunks.as_object(choice.get("delta")))
                if (reason := choice.get("finish_reason")) in _FAILURES:
                    self.failure = f"It ended with finish_reason {reason}."
                elif reason:
                    matched = choice.get("stop_reason") or choice.get("matched_stop")  # vLLM's name, and SGLang's
                    self._end(str(reason), matched)
        yield from self._due()

    def _begun(self, chunk: Mapping[str, Any]) -> dict[str, Any]:
        model = chunk.get("model") or self._request.get("model")
        return {
            "id": f"msg_{self._job_id}", "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": self._usage,
            **({"jobfarm": {"notes": [*self._notes]}} if self._notes else {}),
        }  # fmt: skip

    def _add(self, delta: Mapping[str, Any]) -> None:
        # Servers of models that reason call it by either name.
        self._text("thinking", delta.get("reasoning_content") or delta.get("reasoning"))
        self._text("text", delta.get("content"))
        self._text("text", delta.get("refusal"))
        for call in chunks.objects(delta.get("tool_calls")):
            self._call(call)

    def _text(self, kind: str, text: Any) -> None:
        if not text or not isinstance(text, str):
            return
        if not self._queue or self._queue[-1].kind != kind:
            more = {"signature": ""} if kind == "thinking" else {}
            self._queue.append(_Block({"type": kind, kind: "", **more}))
        self._queue[-1].add(text)

    def _call(self, call: Mapping[str, Any]) -> None:
        function, number = chunks.as_object(call.get("function")), self._call_numbers.of(call)
        if number not in self._calls:
            call_id = str(call.get("id") or f"toolu_{self._job_id}_{number}")
            self._calls[number] = _Block({"type": "tool_use", "id": call_id, "name": "", "input": {}})
            self._queue.append(self._calls[number])
        begin = self._calls[number].begin
        begin["name"] = begin["name"] or str(function.get("name") or "")
        self._calls[number].add(function.get("arguments"))

    def _end(self, reason: str, matched: Any) -> None:
        """Note why it ended. Some servers say which text stopped them, and some say `stop` of calls too."""
        self.is_finished = True
        stops = self._request.get("stop_sequences") or ()
        if reason == "stop" and isinstance(matched, str) and matched in stops:
            self._stop = {"stop_reason": "stop_sequence", "stop_sequence": matched}
        else:
            is_call = bool(self._calls) and reason == "stop"
            stop = "tool_use" if is_call else _STOPS.get(reason, "end_turn")
            self._stop = {"stop_reason": stop, "stop_sequence": None}

    def _due(self, *, is_last: bool = False) -> Iterator[Event]:
        """The events of what has come, block by block; at the end of all of it."""
        while self._at < len(self._queue):
            block, number = self._queue[self._at], self._at
            if is_last or block.is_named:
                yield from _grown(block, number)
            if not is_last and (number + 1 == len(self._queue) or not block.is_whole):
                return
            yield {"type": "content_block_stop", "index": number}
            self._at += 1

    def _last_events(self) -> Iterator[Event]:
        yield from self._due(is_last=True)
        yield {"type": "message_delta", "delta": self._stop, "usage": self._usage}
        yield {"type": "message_stop"}


def _grown(block: _Block, number: int) -> Iterator[Event]:
    if not block.is_open:
        block.is_open = True
        yield {"type": "content_block_start", "index": number, "content_block": {**block.begin}}
    if block.unsent:
        kind, name = _PIECES[block.kind]
        piece, block.unsent = str(block.unsent), chunks.GrowingText()
        yield {"type": "content_block_delta", "index": number, "delta": {"type": kind, name: piece}}


def _usage(counted: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens as Anthropic counts them: those that were in a cache are no `input_tokens`."""
    into, cached = _count(counted, "prompt_tokens"), _count(counted.get("prompt_tokens_details"), "cached_tokens")
    return {
        "input_tokens": max(0, into - cached), "output_tokens": _count(counted, "completion_tokens"),
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": cached,
    }  # fmt: skip


def _count(counted: Any, name: str) -> int:
    number = chunks.as_object(counted).get(name)
    return number if isinstance(number, int) else 0


def _whole(block: dict[str, Any], pieces: chunks.GrowingText | None) -> dict[str, Any]:
    """A block with its input, which may come as pieces of JSON; `{}` where they make no object."""
    return {**block, "input": object_in(str(pieces)) or {}} if pieces else block


def _continued(known: Any, more: str) -> chunks.GrowingText:
    if isinstance(known, chunks.GrowingText):
        known += more
        return known
    return chunks.GrowingText(str(known or ""), more)
