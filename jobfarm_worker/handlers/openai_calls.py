"""`openai`: calls of OpenAI's API, word for word, answered by any server that speaks it (Ollama, vLLM, llama.cpp)."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
import openai

from jobfarm_worker.errors import Failed
from jobfarm_worker.handlers import answers, servers
from jobfarm_worker.handlers.chunks import Transcription, Whole, wants_usage
from jobfarm_worker.handlers.payloads import call_of
from jobfarm_worker.handlers.responses import MappedResponse, PassedResponse
from jobfarm_worker.handlers.responses_request import chat_request, with_context
from jobfarm_worker.handlers.retrying import DELAYS_S, BrokenStreamError, is_worth_retrying, retried
from jobfarm_worker.job import Job

MODELS_S = 10.0
UNKNOWN = frozenset({404, 405, 501})  # how servers answer at an address that they do not have
log = logging.getLogger("jobfarm_worker")


class Streamed(Protocol):
    """An answer that comes in pieces."""

    has_token: bool

    @property
    def model(self) -> str:
        """The model that answers, as the server names it."""

    @property
    def is_finished(self) -> bool:
        """Whether the server ended it by itself."""

    def lines(self, chunk: Mapping[str, Any], /) -> list[str]:
        """Take the next piece in: what the caller gets of it, as lines of output."""

    def closing(self) -> list[str]:
        """The lines at the end of the stream."""

    def answer(self) -> dict[str, Any]:
        """The whole answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the model server; with files it is a form."""

    path: str
    body: Mapping[str, Any]
    files: Sequence[tuple[str, tuple[str, bytes]]] | None = None

    async def posted(self, client: openai.AsyncOpenAI) -> httpx.Response:
        """The server's answer, read to its end."""
        response: httpx.Response = await client.post(
            f"/{self.path}", cast_to=httpx.Response, body={**self.body}, **self._form
        )
        return response

    async def chunks(self, client: openai.AsyncOpenAI) -> AsyncIterator[Mapping[str, Any]]:
        """The objects of the server's stream. Raises BrokenStreamError for whatever breaks it."""
        stream = await client.post(
            f"/{self.path}", cast_to=object, body={**self.body}, stream=True,
            stream_cls=openai.AsyncStream[object], **self._form,
        )  # fmt: skip
        try:
            async for chunk in stream:
                if isinstance(chunk, dict):
                    yield chunk
        except openai.APIError as error:  # an error event in the stream has no status to judge it by
            raise BrokenStreamError(str(error)) from error
        except Exception as error:  # the client passes on whatever its transport or its JSON reader raised
            raise BrokenStreamError(f"{type(error).__name__}: {error}") from error
        finally:
            await stream.close()

    @property
    def _form(self) -> dict[str, Any]:
        if self.files is None:
            return {}
        return {"files": self.files, "options": {"headers": {"Content-Type": "multipart/form-data"}}}


class OpenAICalls:
    """A handler that passes calls on to the server at `url` (its `/v1` address), and announces its models.

    `OPENAI_API_KEY` is the server's key, if it needs one; `JOBFARM_LLM_KEY` goes before it. Payload: `{"path":
    "chat/completions", "body": {...}}`. Each chunk of a streamed answer is a line of output. Result: the whole answer,
    or `{"answer_file": "answer.json"}` for one too large for a result; pictures become files too.

    Before the first token, 408, 409, 429, 5xx and lost connections are repeated (`retrying`), here and by the farm;
    whatever else the server refuses with is the caller's answer, and ends the job.
    """

    def __init__(self, *, url: str, environ: Mapping[str, str], delays_s: Sequence[float] = DELAYS_S) -> None:
        self._url = url
        self._key = environ.get("JOBFARM_LLM_KEY") or environ.get("OPENAI_API_KEY") or "none"
        self._delays_s = delays_s
        self._rng = random.SystemRandom()
        self._has_responses: bool | None = None

    async def models(self) -> list[str]:
        """The models of the server; none while it does not answer. Each minute, so this is also when it is asked anew
        whether it has `/responses`."""
        self._has_responses = None
        try:
            async with self._client(MODELS_S) as client:
                listed = await client.get("/models", cast_to=object)
        except Exception as error:  # whatever its transport or its JSON reader raises
            log.warning("the model server does not say which models it has: %s", error)
            return []
        entries = listed.get("data") if isinstance(listed, dict) else None
        models = [entry.get("id") for entry in entries or () if isinstance(entry, dict)]
        return [name for name in models if isinstance(name, str)]

    async def loaded(self) -> list[str]:
        """The models that the server has in memory; none of a server that does not say, as Ollama does."""
        root = self._url.rstrip("/").removesuffix("/v1")
        try:
            async with httpx.AsyncClient(timeout=MODELS_S) as client:
                answer = (await client.get(f"{root}/api/ps")).raise_for_status().json()
        except (httpx.HTTPError, ValueError):
            return []
        entries = answer.get("models") if isinstance(answer, dict) else None
        entries = entries if isinstance(entries, list) else []
        names = [entry.get("name") for entry in entries if isinstance(entry, dict)]
        return [name for name in names if isinstance(name, str)]

    async def __call__(self, job: Job) -> Any:
        """Run one call."""
        path, body = call_of(job.payload)
        job.progress(detail=f"Asking {body.get('model')}"[:200])
        async with self._client() as client:
            if path == "responses":
                return await self._responded(client, body, job)
            if path.startswith("audio/"):
                return await self._transcribed(client, path, body, job)
            if body.get("stream"):
                shown = wants_usage(body)
                request = Request(path, _counting(body))
                return await self._streamed(client, request, lambda: Whole(shows_usage=shown), job)
            answer = await self._whole(client, Request(path, body))
        return answers.handed_in(job, path, answer)

    def _client(self, timeout_s: float = servers.ANSWER_S) -> openai.AsyncOpenAI:
        return servers.client(self._url, self._key, timeout_s=timeout_s)

    async def _responded(self, client: openai.AsyncOpenAI, body: dict[str, Any], job: Job) -> Any:
        """A response: of the server's own, or made of a chat where it has none."""
        is_own = await self._retried(lambda: self._knows_responses(client), may_retry=lambda: True)
        kind = PassedResponse if is_own else MappedResponse
        request = _response_request(job.payload, body) if is_own else _chat_of(job.payload, body)

        def new() -> PassedResponse | MappedResponse:
            return kind(body, job_id=job.id, fence=job.fence, now=_now())

        if body.get("stream"):
            return await self._streamed(client, request, new, job)
        answer = new()
        answer.take_whole(await self._whole(client, request))
        return answers.handed_in(job, "responses", answer.answer())

    async def _knows_responses(self, client: openai.AsyncOpenAI) -> bool:
        """Whether the server has `/responses`: an empty call is refused there, and elsewhere not known."""
        if self._has_responses is None:
            try:
                await client.post("/responses", cast_to=httpx.Response, body={})
            except openai.APIStatusError as error:
                if is_worth_retrying(error) and error.status_code not in UNKNOWN:
                    raise
                self._has_responses = error.status_code not in UNKNOWN
            else:
                self._has_responses = True
        return self._has_responses

    async def _transcribed(
        self, client: openai.AsyncOpenAI, path: str, body: dict[str, Any], job: Job
    ) -> Any:
        """The text of the job's input file, which goes to the server as a form."""
        name = job.payload.get("file")
        request = Request(path, body, files=[("file", (name, await job.input(name)))])
        if body.get("stream"):
            return await self._streamed(client, request, Transcription, job)
        response = await self._retried(lambda: request.posted(client), may_retry=lambda: True)
        content_type = response.headers.get("content-type", "")
        try:
            answer = response.json() if "json" in content_type else None
        except ValueError as error:
            raise Failed(f"The model server's answer is no JSON: {error}.") from error
        if answer is None:
            return answers.handed_in_text(job, response.text, content_type=content_type)
        return answers.handed_in(job, path, answer)

    async def _whole(self, client: openai.AsyncOpenAI, request: Request) -> Any:
        async def ask() -> Any:
            response = await request.posted(client)
            try:
                return response.json()
            except ValueError as error:
                raise BrokenStreamError(f"It is no JSON: {error}.") from error

        return await self._retried(ask, may_retry=lambda: True)

    async def _streamed(
        self, client: openai.AsyncOpenAI, request: Request, new: Callable[[], Streamed], job: Job
    ) -> dict[str, Any]:
        answer = new()

        async def ask() -> None:
            nonlocal answer
            answer = new()
            await _pass_on(client, request, answer, job)

        # What the caller has read cannot be taken back.
        await self._retried(ask, may_retry=lambda: not answer.has_token)
        result: dict[str, Any] = answers.handed_in(job, request.path, answer.answer())
        return result

    async def _retried(self, request: Any, *, may_retry: Any) -> Any:
        try:
            return await retried(request, may_retry=may_retry, rng=self._rng, delays_s=self._delays_s)
        except Failed as failed:
            raise _with_answer(failed) from failed.__cause__


def _counting(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request with its usage, for the result, whoever else wants that."""
    options = body.get("stream_options")
    return {
        **body,
        "stream_options": {**(options if isinstance(options, dict) else {}), "include_usage": True},
    }


def _response_request(payload: Mapping[str, Any], body: Mapping[str, Any]) -> Request:
    """The farm keeps responses: the server is to keep none, and answers while the worker waits."""
    own = ("background", "previous_response_id")
    fields = {name: value for name, value in with_context(payload, body).items() if name not in own}
    return Request("responses", {**fields, "store": False})


def _chat_of(payload: Mapping[str, Any], body: Mapping[str, Any]) -> Request:
    chat = chat_request(with_context(payload, body))
    return Request("chat/completions", _counting(chat) if chat.get("stream") else chat)


async def _pass_on(client: openai.AsyncOpenAI, request: Request, answer: Streamed, job: Job) -> None:
    """Write the chunks of one answer as they come. Those before the first token are kept back: an attempt that ends
    before it left nothing behind."""
    held: list[str] = []
    async for chunk in request.chunks(client):
        is_first = not answer.has_token
        held += answer.lines(chunk)
        if answer.has_token:
            if is_first:
                job.progress(detail=f"{answer.model or request.body.get('model')} is writing"[:200])
            job.write("".join(held))
            held.clear()
    if not answer.is_finished:
        raise BrokenStreamError(getattr(answer, "failure", "") or "The stream just ended.")
    if last := held + answer.closing():
        job.write("".join(last))


def _now() -> int:
    return int(time.time())  # noqa: TID251 (as a model server says when it answered)


def _with_answer(failed: Failed) -> Failed:
    """The failure with what the server answered, for the caller."""
    cause = failed.__cause__
    if not isinstance(cause, openai.APIStatusError):
        return failed
    try:
        body = json.loads(cause.response.text)
    except ValueError:
        return failed
    if not isinstance(body, dict):
        return failed
    return answers.refused(cause.status_code, body, message=cause.message, retryable=failed.retryable)
