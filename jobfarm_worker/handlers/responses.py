"""The events of a streamed response: made of the chunks of a chat, or those of a server that has `/responses`.

Events carry `sequence_number`. Those of a job's first claim count from 0, those of its n-th from n - 1 million: who
resumes behind a number gets events of that claim or none (docs/adr/0084).
"""

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jobfarm_worker.handlers import chunks
from jobfarm_worker.handlers.responses_request import chat_request, left_out, with_context
from jobfarm_worker.job import Job

EVENTS_OF_A_CLAIM: Final = 1_000_000  # more than the 50 MB of output hold that an attempt may write
# What a response repeats of its request, and what it says where that is silent.
_REPEATED: Final[Mapping[str, Any]] = {
    "background": False, "instructions": None, "max_output_tokens": None, "metadata": {}, "parallel_tool_calls": True,
    "previous_response_id": None, "reasoning": None, "store": True, "temperature": None,
    "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": None,
    "truncation": "disabled", "user": None,
}  # fmt: skip
_FARMS: Final = ("background", "metadata", "previous_response_id", "store")
# Of each sort of text: the item that it is part of, the event's name, and the field that holds it.
_TEXTS: Final = {
    "output_text": ("message", "response.output_text", "text"),
    "refusal": ("message", "response.refusal", "refusal"),
    "reasoning_text": ("reasoning", "response.reasoning_text", "text"),
}
_OF_ITEMS: Final[Mapping[str, dict[str, Any]]] = {"message": {"role": "assistant"}, "reasoning": {"summary": []}}
_PREFIXES: Final = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ENDS: Final = frozenset({"response.completed", "response.incomplete"})

Event = dict[str, Any]


@dataclass(slots=True)
class _Item:
    index: int
    value: dict[str, Any]
    is_open: bool = True
    arguments: chunks.GrowingText = field(default_factory=chunks.GrowingText)


def of_job(job: Job) -> dict[str, int]:
    """What a response is made with, beside its request."""
    now = int(time.time())  # noqa: TID251 (as a model server says when it answered)
    return {"job_id": job.id, "fence": job.fence, "now": now}


class _Numbered(chunks.Streamed):
    def __init__(self, body: Mapping[str, Any], *, job_id: int, fence: int, now: int) -> None:
        self._next = max(fence - 1, 0) * EVENTS_OF_A_CLAIM
        self._job_id = job_id
        self.response: dict[str, Any] = {
            "id": f"resp_{job_id}", "object": "response", "created_at": now, "status": "in_progress",
            "model": body.get("model"), "output": [], "error": None, "incomplete_details": None, "usage": None,
            **{name: value if body.get(name) is None else body[name] for name, value in _REPEATED.items()},
        }  # fmt: skip

    def _event(self, kind: str, **fields: Any) -> Event:
        self._next += 1
        return {"type": kind, "sequence_number": self._next - 1, **fields}

    def _whole(self, kind: str) -> Event:
        return self._event(kind, response=copy.deepcopy(self.response))

    @property
    def model(self) -> str:  # type: ignore[override]
        return str(self.response["model"])

    def answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = chunks.storable_json(self.response)
        return answer


def as_chat(job: Job, body: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[], "MappedResponse"]]:
    """The chat to ask for in place of this response, and what makes the response of its chunks. Raises Failed, for
    good."""
    return chat_request(with_context(job.payload, body)), lambda: MappedResponse(body, **of_job(job))


class MappedResponse(_Numbered):
    """A response from the chunks of a chat. Its first choice is the response; others are left out."""

    def __init__(self, body: Mapping[str, Any], *, job_id: int, fence: int, now: int) -> None:
        super().__init__(body, job_id=job_id, fence=fence, now=now)
        self._items: list[_Item] = []
        self._calls: dict[int, _Item] = {}
        self._call_numbers = chunks.CallNumbers()
        self._notes = left_out(body)
        self._finish_reason = ""
        self._has_begun = False

    def lines(self, chunk: Mapping[str, Any]) -> list[str]:
        return [chunks.line(event) for event in self._events(chunk)]

    def supply_finish(self) -> list[str]:
        """The server said that this is all, and not why: no events, since a response says nothing of it."""
        self._finish_reason, self.is_finished = "stop", True
        self._notes.append(chunks.FINISH_SUPPLIED)
        return []

    def closing(self) -> list[str]:
        """The events at the end of the stream, as lines."""
        return [chunks.line(event) for event in self._last_events()]

    def take_whole(self, completion: Mapping[str, Any]) -> None:
        choices = [chunks.as_delta(choice) for choice in chunks.objects(completion.get("choices"))]
        self.lines({**completion, "choices": choices})
        self.closing()

    def _events(self, chunk: Mapping[str, Any]) -> Iterator[Event]:
        if not self._has_begun:
            self._has_begun = True
            self.response["model"] = chunk.get("model") or self.response["model"]
            yield self._whole("response.created")
            yield self._whole("response.in_progress")
        if (counted := chunks.usage_of(chunk)) is not None:
            self.response["usage"] = _usage(counted)
        for choice in chunks.objects(chunk.get("choices")):
            if not choice.get("index"):
                yield from self._delta(chunks.as_object(choice.get("delta")))
                self._finish_reason = choice.get("finish_reason") or self._finish_reason
                self.is_finished = bool(self._finish_reason)
                self.has_token = self.has_token or self.is_finished

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[Event]:
        # Servers of models that reason call it by either name.
        yield from self._text("reasoning_text", delta.get("reasoning_content") or delta.get("reasoning"))
        yield from self._text("output_text", delta.get("content"))
        yield from self._text("refusal", delta.get("refusal"))
        for call in chunks.objects(delta.get("tool_calls")):
            yield from self._call(call)

    def _text(self, kind: str, text: Any) -> Iterator[Event]:
        if not text or not isinstance(text, str):
            return
        self.has_token = True
        of, name, field = _TEXTS[kind]
        item = self._items[-1] if self._items else None
        if item is None or not item.is_open or item.value["type"] != of:
            item = yield from self._opened(of, content=[], **_OF_ITEMS[of])
        parts = item.value["content"]
        if not parts or parts[-1]["type"] != kind:
            if parts:
                yield from self._closed_part(item)
            parts.append({"type": kind, field: "", **({"annotations": []} if kind == "output_text" else {})})
            yield self._of(item, "response.content_part.added", content_index=len(parts) - 1, part={**parts[-1]})
            parts[-1][field] = chunks.GrowingText()
        parts[-1][field] += text
        yield self._of(item, f"{name}.delta", content_index=len(parts) - 1, delta=text, **_logprobs(kind))

    def _call(self, call: Mapping[str, Any]) -> Iterator[Event]:
        self.has_token = True
        function, number = chunks.as_object(call.get("function")), self._call_numbers.of(call)
        item = self._calls.get(number)
        if item is None:
            named = {"name": str(function.get("name") or ""), "arguments": ""}
            call_id = call.get("id") or f"call_{self._job_id}_{number}"
            opened: _Item = yield from self._opened("function_call", **named, call_id=call_id)
            item = self._calls[number] = opened
        if arguments := str(function.get("arguments") or ""):
            item.arguments += arguments
            yield self._of(item, "response.function_call_arguments.delta", delta=arguments)

    def _opened(self, type: str, **fields: Any) -> Any:  # noqa: A002 (the field of an item)
        """A new item, behind the end of the text before it; calls of functions stay open side by side."""
        if self._items and self._items[-1].value["type"] != "function_call":
            yield from self._closed(self._items[-1], "completed")
        index = len(self._items)
        item_id = f"{_PREFIXES[type]}_{self._job_id}_{index}"
        item = _Item(index, {"id": item_id, "type": type, "status": "in_progress", **fields})
        self._items.append(item)
        yield self._event("response.output_item.added", output_index=index, item=copy.deepcopy(item.value))
        return item

    def _of(self, item: _Item, kind: str, **fields: Any) -> Event:
        return self._event(kind, item_id=item.value["id"], output_index=item.index, **fields)

    def _closed_part(self, item: _Item) -> Iterator[Event]:
        parts = item.value["content"]
        part, at = parts[-1], len(parts) - 1
        _, name, field = _TEXTS[part["type"]]
        part[field] = str(part[field])
        done = {field: part[field], **_logprobs(part["type"])}
        yield self._of(item, f"{name}.done", content_index=at, **done)
        yield self._of(item, "response.content_part.done", content_index=at, part={**part})

    def _closed(self, item: _Item, status: str) -> Iterator[Event]:
        if not item.is_open:
            return
        item.is_open = False
        value = item.value
        if value["type"] == "function_call":
            value["arguments"] = str(item.arguments)
            done = {"arguments": value["arguments"], "name": value["name"]}
            yield self._of(item, "response.function_call_arguments.done", **done)
        elif value["content"]:
            yield from self._closed_part(item)
        value["status"] = status
        yield self._event("response.output_item.done", output_index=item.index, item=copy.deepcopy(value))

    def _last_events(self) -> Iterator[Event]:
        reason = _INCOMPLETE.get(self._finish_reason)
        status = "incomplete" if reason else "completed"
        for item in self._items:
            yield from self._closed(item, status)
        self.response |= {
            "status": status, "output": [item.value for item in self._items],
            "incomplete_details": {"reason": reason} if reason else None,
            **({"jobfarm": {"notes": self._notes}} if self._notes else {}),
        }  # fmt: skip
        yield self._whole(f"response.{status}")


class PassedResponse(_Numbered):
    """A response of a server that has `/responses`: its events with our numbers and our response's id."""

    def __init__(self, body: Mapping[str, Any], *, job_id: int, fence: int, now: int) -> None:
        super().__init__(body, job_id=job_id, fence=fence, now=now)
        self._farms = {name: self.response[name] for name in ("id", *_FARMS)}

    def lines(self, event: Mapping[str, Any]) -> list[str]:
        """This event as a line of output. One that says that the response failed makes none: see `failure`."""
        kind = str(event.get("type"))
        if kind in ("error", "response.failed"):
            self.failure = _message_of(event)
            return []
        fields = {name: value for name, value in event.items() if name not in ("type", "sequence_number")}
        if isinstance(event.get("response"), dict):
            self.take_whole(event["response"])
            fields["response"] = self.response
        self.is_finished = self.is_finished or kind in _ENDS
        self.has_token = self.has_token or self.is_finished or kind.endswith(".delta")
        return [chunks.line(self._event(kind, **fields))]

    def take_whole(self, response: Mapping[str, Any]) -> None:
        """Take a whole response in; what the farm itself knows of it stays."""
        self.response = {**response, **self._farms}


def _message_of(event: Mapping[str, Any]) -> str:
    response = event.get("response")
    error = response.get("error") if isinstance(response, dict) else event
    return str(error.get("message") if isinstance(error, dict) else error)


def _logprobs(kind: str) -> dict[str, Any]:
    return {"logprobs": []} if kind == "output_text" else {}


def _usage(counted: Mapping[str, Any]) -> dict[str, Any]:
    of_input, of_output = (counted.get(f"{part}_tokens_details") or {} for part in ("prompt", "completion"))
    return {
        "input_tokens": counted.get("prompt_tokens") or 0,
        "input_tokens_details": {name: of_input.get(name) or 0 for name in ("cached_tokens", "cache_write_tokens")},
        "output_tokens": counted.get("completion_tokens") or 0,
        "output_tokens_details": {"reasoning_tokens": of_output.get("reasoning_tokens") or 0},
        "total_tokens": counted.get("total_tokens") or 0,
    }
