"""The chunks of a streamed answer of OpenAI's API, put together to what the same call gets without `stream`."""

import copy
import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from jobfarm_worker.protocol import storable

_REPLACED = frozenset({"id", "index", "object", "role", "type"})  # said once, or the same again in each chunk


class GrowingText:
    """A text that comes in pieces, joined once: continued with `+`, a field of a dict is copied whole for each."""

    def __init__(self, *pieces: str) -> None:
        self._pieces = [piece for piece in pieces if piece]

    def __iadd__(self, piece: str) -> Self:
        if piece:
            self._pieces.append(piece)
        return self

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def __str__(self) -> str:
        return "".join(self._pieces)


FINISH_SUPPLIED = "The model server did not say why the answer ended: its finish_reason was supplied by the farm."


@dataclass(slots=True)
class _Call:
    index: Any
    id: Any
    name: Any
    arguments: GrowingText = field(default_factory=GrowingText)


class CallNumbers:
    """Which call of a function each piece belongs to: by `index`, also of servers that leave it out or say 0 of all."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def of(self, piece: Mapping[str, Any]) -> int:
        """The number of the call that this piece is of, counted from 0."""
        function = as_object(piece.get("function"))
        name, index = function.get("name"), piece.get("index")
        index = index if isinstance(index, int) else None
        number = self._known(index, piece.get("id"), name)
        if number is None:
            number = len(self._calls)
            self._calls.append(_Call(index, piece.get("id"), name))
        self._calls[number].arguments += str(function.get("arguments") or "")
        return number

    def _known(self, index: int | None, call_id: Any, name: Any) -> int | None:
        same = [n for n, call in enumerate(self._calls) if index is None or call.index == index]
        last = self._calls[same[-1]] if same else None
        if last is None:
            return None
        if call_id and last.id and call_id != last.id and (name or index is None):
            return next((n for n in same if self._calls[n].id == call_id), None)
        if not call_id and index is None and name and (name != last.name or _is_json(str(last.arguments))):
            return None  # nothing but its name says that another call begins
        return same[-1]


class Streamed(ABC):
    """An answer that comes in pieces."""

    model = ""
    """The model that answers, as the server names it."""
    has_token = False
    is_finished = False
    """Whether the server ended it by itself."""
    failure = ""
    """How it failed, by the server's own word."""

    @abstractmethod
    def lines(self, chunk: Mapping[str, Any], /) -> list[str]:
        """Take the next piece in: what the caller gets of it, as lines of output."""

    def supply_finish(self) -> list[str]:
        """The lines that stand in for a finish reason, where the server ended its stream without one. Of an answer
        that is not whole without the server's own word, none, and it stays unfinished."""
        return []

    def closing(self) -> list[str]:
        return []

    @abstractmethod
    def answer(self) -> dict[str, Any]:
        """The whole answer."""


class Whole(Streamed):
    """The chunks of a chat."""

    def __init__(self, *, shows_usage: bool = True) -> None:
        """`shows_usage`: the chunk that only counts tokens is for the caller too."""
        self._shows_usage = shows_usage
        self._calls: defaultdict[int, CallNumbers] = defaultdict(CallNumbers)
        self._answer: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}

    @property
    def is_finished(self) -> bool:  # type: ignore[override]
        """Whether the server said of each choice why it ended."""
        return bool(self._choices) and all(choice.get("finish_reason") for choice in self._choices.values())

    @property
    def model(self) -> str:  # type: ignore[override]
        return str(self._answer.get("model", ""))

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take the next chunk in. What is not as in OpenAI's API is taken as it is, or left out."""
        self._answer |= {name: value for name, value in chunk.items() if name != "choices" and value is not None}
        if (usage := usage_of(chunk)) is not None:
            self._answer["usage"] = usage
        for choice in objects(chunk.get("choices")):
            number, copied = index_of(choice), copy.deepcopy(choice)
            for call in objects(copied["delta"].get("tool_calls")) if _is_delta(copied) else ():
                call["index"] = self._calls[number].of(call)
            _merge(self._choices.setdefault(number, {}), copied)
            self.has_token = self.has_token or _has_token(choice)

    def lines(self, chunk: Mapping[str, Any]) -> list[str]:
        """Take the next chunk in: what of it is for the caller, as lines of output."""
        self.add(chunk)
        return [line(chunk)] if self._shows_usage or not is_usage(chunk) else []

    def supply_finish(self) -> list[str]:
        """The server said that this is all, and not why: a chunk that does, as a line of output."""
        ended = [number for number, choice in self._choices.items() if choice.get("finish_reason")]
        choices = [self._finish_of(number) for number in sorted(self._choices.keys() - ended)]
        head = {name: self._answer.get(name) for name in ("id", "object", "created", "model")}
        return self.lines({**head, "choices": choices, "jobfarm": {"notes": [FINISH_SUPPLIED]}})

    def _finish_of(self, number: int) -> dict[str, Any]:
        known = self._choices[number]
        if "text" in known:
            return {"index": number, "text": "", "finish_reason": "stop"}
        reason = "tool_calls" if _is_delta(known) and known["delta"].get("tool_calls") else "stop"
        return {"index": number, "delta": {}, "finish_reason": reason}

    def answer(self) -> dict[str, Any]:
        kind = str(self._answer.get("object", "")).removesuffix(".chunk")
        choices = [_whole(choice) for _, choice in sorted(self._choices.items())]
        answer = {**self._answer, "object": kind, "choices": choices}
        # A character that came in two halves is whole only now.
        whole: dict[str, Any] = storable_json(answer)
        return whole


class Transcription(Streamed):
    """What has come of a streamed transcription so far."""

    def __init__(self) -> None:
        self._text = GrowingText()
        self._done: Mapping[str, Any] = {}

    def lines(self, event: Mapping[str, Any]) -> list[str]:
        """Take the next event in: it, as a line of output."""
        if event.get("type") == "transcript.text.done":
            self._done, self.is_finished = event, True
        if event.get("type") == "transcript.text.delta":
            self._text += str(event.get("delta", ""))
        self.has_token = bool(self._text) or self.is_finished
        return [line(event)]

    def answer(self) -> dict[str, Any]:
        """The text, with all else that its last event has."""
        beside = {name: value for name, value in self._done.items() if name != "type"}
        answer: dict[str, Any] = storable_json({"text": str(self._text), **beside})
        return answer


def storable_json(value: Any) -> Any:
    """The value with all texts as a farm stores them: halves of a character that came apart are one now."""
    if isinstance(value, str | GrowingText):
        return storable(str(value))
    if isinstance(value, dict):
        return {storable(name): storable_json(each) for name, each in value.items()}
    return [storable_json(each) for each in value] if isinstance(value, list) else value


def line(chunk: Mapping[str, Any]) -> str:
    """A chunk as one line of output, which loses nothing of it: also half a character is escaped."""
    return json.dumps(chunk, separators=(",", ":")) + "\n"


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; none where it is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_delta(choice: Mapping[str, Any]) -> dict[str, Any]:
    """A choice of a whole answer as one of a chunk, in one piece."""
    message = as_object(choice.get("message"))
    calls = [{**call, "index": number} for number, call in enumerate(objects(message.get("tool_calls")))]
    return {**choice, "delta": {**message, "tool_calls": calls}}


def wants_usage(body: Mapping[str, Any]) -> bool:
    """Whether this call asks for the chunk that only counts tokens."""
    options = body.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


def is_usage(chunk: Mapping[str, Any]) -> bool:
    """Whether it says nothing but how many tokens were used."""
    return not chunk.get("choices") and chunk.get("usage") is not None


def usage_of(chunk: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a chunk says of tokens, in OpenAI's place or in Groq's; None: nothing."""
    places = (chunk, as_object(chunk.get("x_groq")))
    return next((place["usage"] for place in places if isinstance(place.get("usage"), dict)), None)


def _is_delta(choice: Mapping[str, Any]) -> bool:
    return isinstance(choice.get("delta"), dict)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def index_of(item: Mapping[str, Any]) -> int:
    index = item.get("index")
    return index if isinstance(index, int) else 0


def _has_token(choice: Mapping[str, Any]) -> bool:
    delta = choice.get("delta")
    content = {**as_object(delta), "text": choice.get("text"), "role": None}
    return any(content.values()) or bool(choice.get("finish_reason"))


def _whole(choice: dict[str, Any]) -> dict[str, Any]:
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return choice
    delta, choice = {**delta}, {name: value for name, value in choice.items() if name != "delta"}
    calls = delta.get("tool_calls")
    if isinstance(calls, list):  # the index is that of the pieces
        delta["tool_calls"] = [{k: v for k, v in call.items() if k != "index"} for call in objects(calls)]
    return {**choice, "message": {"role": "assistant", "content": None, **delta}}


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add a delta: texts are continued, lists go on (by `index` where their items have one)."""
    for name, value in more.items():
        known = into.get(name)
        if value is None:
            into.setdefault(name, None)
        elif known is None or name in _REPLACED:
            into[name] = _merged([], value) if isinstance(value, list) else value
        elif isinstance(known, dict) and isinstance(value, dict):
            _merge(known, value)
        elif isinstance(known, list) and isinstance(value, list):
            into[name] = _merged(known, value)
        elif isinstance(known, GrowingText) and isinstance(value, str):
            known += value
        elif isinstance(known, str) and isinstance(value, str) and name != "finish_reason":
            # A function's name comes whole: some servers say it again in each piece.
            into[name] = known if name == "name" and known == value else GrowingText(known, value)
        else:
            into[name] = value


def _merged(known: list[Any], more: list[Any]) -> list[Any]:
    known = list(known)
    for item in more:
        same = [old for old in known if _is_piece(item) and _is_piece(old) and old["index"] == item["index"]]
        if same:
            _merge(same[0], item)
        else:
            known.append(item)
    return known


def _is_piece(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("index"), int)
