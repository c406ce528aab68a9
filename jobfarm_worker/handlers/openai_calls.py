"""`openai`: calls of OpenAI's API, word for word, answered by any server that speaks it (Ollama, vLLM, llama.cpp)."""

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

from jobfarm_worker.errors import Failed
from jobfarm_worker.handlers import calls, messages, responses, servers
from jobfarm_worker.handlers.calls import call_of, headers_of
from jobfarm_worker.handlers.chunks import Streamed, Transcription, Whole, as_object, objects, wants_usage
from jobfarm_worker.handlers.messages_request import estimated
from jobfarm_worker.handlers.responses_request import with_context
from jobfarm_worker.handlers.servers import DELAYS_S, retried
from jobfarm_worker.job import Job

MODELS_S = 10.0
COUNT_TOKENS = "messages/count_tokens"
ESTIMATED = "Estimated by the length of the texts: the model server does not count tokens."
UNKNOWN = frozenset({404, 405, 501})  # how servers answer at an address that they do not have
PASSING = frozenset({408, 409, 425, 429, 502, 503, 504})  # what says nothing about the address
# The newer and the older name of vLLM's, and that of llama.cpp until May 2025. Of several engines each has a line.
_CACHE = re.compile(
    r"^(?:vllm:(?:kv|gpu)_cache_usage_perc|llamacpp:kv_cache_usage_ratio)(?:\{.*\})? ([0-9.]+(?:e-[0-9]+)?)$",
    re.MULTILINE,
)
log = logging.getLogger("jobfarm_worker")


class OpenAICalls:
    """A handler that passes calls on to the server at `url` (its `/v1` address), and announces its models.

    `OPENAI_API_KEY` is the server's key, if it needs one; `JOBFARM_LLM_KEY` goes before it. Payload: `{"path":
    "chat/completions", "body": {...}}`. Each chunk of a streamed answer is a line of output. Result: the whole answer,
    or `{"answer_file": "answer.json"}` for one too large for a result; pictures become files too.

    Before the first token, 408, 409, 429, 5xx and lost connections are repeated (`retried`), here and by the farm;
    whatever else the server refuses with is the caller's answer, and ends the job.
    """

    def __init__(self, *, url: str, environ: Mapping[str, str], delays_s: Sequence[float] = DELAYS_S) -> None:
        self._server = servers.Server.named(url, key="JOBFARM_LLM_KEY", environ=environ)
        self._delays_s = delays_s
        self._known: dict[str, bool] = {}  # which addresses the server has, of those that not all have
        self._counts: bool | None = None  # whether it takes `stream_options`; None: that is not known

    async def models(self) -> list[str]:
        """The models of the server; none while it does not answer. Each minute, so this is also when it is asked anew
        which addresses it has."""
        self._known.clear()
        try:
            listed = (await self._server.connection(timeout_s=MODELS_S).fetch("models")).json()
        except (servers.ServerError, ValueError) as error:
            log.warning("the model server does not say which models it has: %s", error)
            return []
        return _names(listed, among="data", field="id")

    async def loaded(self) -> list[str]:
        """The models that the server has in memory; none of a server that does not say, as Ollama does."""
        with suppress(servers.ServerError, ValueError):
            return _names((await self._beside("api/ps")).json(), among="models", field="name")
        return []

    async def cache_used(self) -> float | None:
        """Which share of its cache of prompts the server's running calls hold, in tenths; None of a server that does
        not say, as vLLM does."""
        with suppress(servers.ServerError, ValueError):
            shares = map(float, _CACHE.findall((await self._beside("metrics")).text))
            return max((int(10 * min(1.0, share)) / 10 for share in shares), default=None)
        return None

    async def _beside(self, path: str) -> servers.Answer:
        """What the server says beside its `/v1`. Raises ServerError."""
        root = replace(self._server, url=self._server.url.removesuffix("/v1"))
        return await root.connection(timeout_s=MODELS_S).fetch(path)

    async def __call__(self, job: Job) -> Any:
        path, body = call_of(job.payload, queue=job.queue)
        job.progress(detail=f"Asking {body.get('model')}"[:200])
        calls.note_call(path, body)
        connection = self._server.connection()
        if path in _DIALECTS:
            return await self._in_dialect(connection, path, body, job)
        if path == COUNT_TOKENS:
            return await self._counted(connection, path, body, job)
        if path == "audio/speech":
            spoken = await self._retried(lambda: connection.post(servers.Request(path, body)))
            return calls.handed_in_sound(job, spoken.data, content_type=spoken.content_type)
        if path.startswith("audio/"):
            return await self._transcribed(connection, path, body, job)
        if body.get("stream"):
            shown = wants_usage(body)
            request = servers.Request(path, _counting(body))
            return await self._streamed(connection, request, lambda: Whole(shows_usage=shown), job)
        answer = await self._retried(lambda: connection.post_json(servers.Request(path, body)))
        if path == "embeddings":
            answer = calls.encoded(answer, body)
        return calls.handed_in(job, path, answer)

    async def _in_dialect(self, connection: servers.Connection, path: str, body: dict[str, Any], job: Job) -> Any:
        """An answer in a dialect that servers may have themselves, or made of a chat where one has not."""
        is_own = await self._retried(lambda: self._has(connection, path))
        request, new = _DIALECTS[path](job, body, is_own)
        if body.get("stream"):
            return await self._streamed(connection, request, new, job)

        async def ask() -> Any:
            answer, whole = new(), _checked(await connection.post_json(request), is_own=is_own)
            if isinstance(answer, messages.PassedMessage) and is_own:
                return whole
            answer.take_whole(whole)
            if answer.failure:
                raise servers.BrokenStreamError(answer.failure)
            return answer.answer()

        return calls.handed_in(job, path, await self._retried(ask))

    async def _counted(self, connection: servers.Connection, path: str, body: dict[str, Any], job: Job) -> Any:
        """How many tokens a message has, by the server, or estimated where it does not count them."""
        if not await self._retried(lambda: self._has(connection, path)):
            return {"input_tokens": estimated(body), "jobfarm": {"notes": [ESTIMATED]}}
        return await self._retried(lambda: connection.post_json(_message_request(path, job, body)))

    async def _has(self, connection: servers.Connection, path: str) -> bool:
        """Whether the server has this address: an empty call is refused there, by some with 500, and elsewhere not
        known, which some say in an answer of 200."""
        if path not in self._known:
            try:
                self._known[path] = not (await connection.post(servers.Request(path, {}))).is_error
            except servers.StatusError as error:
                if error.status in PASSING:
                    raise
                self._known[path] = error.status not in UNKNOWN
        return self._known[path]

    async def _transcribed(self, connection: servers.Connection, path: str, body: dict[str, Any], job: Job) -> Any:
        """The text of the job's input file, which goes to the server as a form."""
        name = job.payload.get("file")
        request = servers.Request(path, body, file=(name, await job.input(name)))
        if body.get("stream"):
            return await self._streamed(connection, request, Transcription, job)
        whole = await self._retried(lambda: connection.post(request))
        try:
            answer = whole.json() if "json" in whole.content_type else None
        except ValueError as error:
            raise Failed(f"The model server's answer is no JSON: {error}.") from error
        if answer is None:
            return calls.handed_in_text(job, whole.text, content_type=whole.content_type)
        return calls.handed_in(job, path, answer)

    async def _streamed(
        self, connection: servers.Connection, request: servers.Request, new: Callable[[], Streamed], job: Job
    ) -> dict[str, Any]:
        answer = new()

        async def ask() -> None:
            nonlocal answer
            answer = new()
            await self._passed_on(connection, request, answer, job)

        try:
            # What the caller has read cannot be taken back.
            await self._retried(ask, may_retry=lambda: not answer.has_token)
        except Failed as failed:
            # The job ends with an answer that its caller has begun to read: another attempt would write for nobody.
            is_over = answer.has_token and not job.payload.get("kept")
            raise (Failed(str(failed), retryable=False) if is_over else failed) from failed.__cause__
        result: dict[str, Any] = calls.handed_in(job, request.path, answer.answer())
        return result

    async def _passed_on(
        self, connection: servers.Connection, request: servers.Request, answer: Streamed, job: Job
    ) -> None:
        """Pass one answer on. A server that refuses `stream_options`, which are the farm's wish, is asked without, and
        from then on it is not asked with them. One that refuses the call without them too means the call."""
        if "stream_options" not in request.body:
            await pass_on(connection, request, answer, job)
            return
        refused: servers.StatusError | None = None
        if self._counts is not False:
            try:
                await pass_on(connection, request, answer, job)
            except servers.StatusError as error:
                if not _may_refuse_options(error, is_known=self._counts is not None):
                    raise
                refused = error
            else:
                self._counts = True
                return
        without = {name: value for name, value in request.body.items() if name != "stream_options"}
        try:
            await pass_on(connection, replace(request, body=without), answer, job)
        except servers.StatusError as error:
            raise refused or error from None
        self._counts = False

    async def _retried(self, request: Any, *, may_retry: Callable[[], bool] = lambda: True) -> Any:
        try:
            return await retried(request, may_retry=may_retry, delays_s=self._delays_s)
        except Failed as failed:
            cause = failed.__cause__
            if isinstance(cause, servers.StatusError | servers.BrokenStreamError) and cause.body is not None:
                failed = calls.refused(cause.status, cause.body, message=cause.message, retryable=failed.retryable)
            raise failed from cause


def _counting(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request with its usage, for the result, whoever else wants that."""
    return {**body, "stream_options": {**as_object(body.get("stream_options")), "include_usage": True}}


def _may_refuse_options(error: servers.StatusError, *, is_known: bool) -> bool:
    """Whether it may be `stream_options` that the server refuses: it says so, or nothing is known of it."""
    is_named = "stream_options" in str(error) or "include_usage" in str(error)
    return error.status in (400, 422) and (is_named or not is_known)


def _chat(chat: dict[str, Any]) -> servers.Request:
    return servers.Request("chat/completions", _counting(chat) if chat.get("stream") else chat)


def _message_request(path: str, job: Job, body: Mapping[str, Any]) -> servers.Request:
    return servers.Request(path, body, headers=headers_of(job.payload))


def _responding(job: Job, body: dict[str, Any], is_own: bool) -> tuple[servers.Request, Callable[[], Any]]:
    """How a response is asked for, and what takes its pieces in."""
    if not is_own:
        chat, new = responses.as_chat(job, body)
        return _chat(chat), new
    # The farm keeps responses: the server is to keep none, and answers while the worker waits.
    own = ("background", "previous_response_id")
    fields = {name: value for name, value in with_context(job.payload, body).items() if name not in own}
    return servers.Request("responses", {**fields, "store": False}), lambda: responses.PassedResponse(
        body, **responses.of_job(job)
    )


def _message(job: Job, body: dict[str, Any], is_own: bool) -> tuple[servers.Request, Callable[[], Any]]:
    if is_own:
        return _message_request("messages", job, body), messages.PassedMessage
    chat, new = messages.as_chat(job, body)
    return _chat(chat), new


_DIALECTS: Mapping[str, Callable[[Job, dict[str, Any], bool], tuple[servers.Request, Callable[[], Any]]]] = {
    "responses": _responding, "messages": _message,
}  # fmt: skip


def _checked(whole: Any, *, is_own: bool) -> dict[str, Any]:
    """A whole answer. Raises BrokenStreamError for what is none, since some servers say with 200 that they failed."""
    if not isinstance(whole, dict):
        raise servers.BrokenStreamError("It is no object.")
    if not (is_own and "id" in whole):  # a response that failed is a response
        servers.refuse_error(whole)
    if not is_own and not objects(whole.get("choices")):
        raise servers.BrokenStreamError("It has no choices.")
    return whole


async def pass_on(connection: servers.Connection, request: servers.Request, answer: Streamed, job: Job) -> None:
    """Write the chunks of one answer as they come. Those before the first token are kept back: an attempt that ends
    before it left nothing behind."""
    held: list[str] = []
    begun_s = time.monotonic()
    async with aclosing(connection.stream(request)) as chunks:  # the server hears at once that nobody listens
        async for chunk in chunks:
            is_first = not answer.has_token
            held += answer.lines(chunk)
            if answer.has_token:
                if is_first:
                    calls.note_first_token(time.monotonic() - begun_s)
                    job.progress(detail=f"{answer.model or request.body.get('model')} is writing"[:200])
                if held:
                    job.write("".join(held))
                    held.clear()
    if not (answer.is_finished or answer.failure) and answer.has_token and connection.is_complete:
        held += answer.supply_finish()
    if not answer.is_finished:
        raise servers.BrokenStreamError(answer.failure or "The stream just ended.")
    if last := held + answer.closing():
        job.write("".join(last))


def _names(listed: Any, *, among: str, field: str) -> list[str]:
    """What a list of models, as servers answer with, has as this field of each."""
    return [entry[field] for entry in objects(as_object(listed).get(among)) if isinstance(entry.get(field), str)]
