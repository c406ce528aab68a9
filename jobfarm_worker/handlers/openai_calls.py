"""`openai`: calls of OpenAI's API, word for word, answered by any server that speaks it (Ollama, vLLM, llama.cpp)."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import openai

from jobfarm_worker.errors import Failed
from jobfarm_worker.handlers import answers
from jobfarm_worker.handlers.chunks import Whole, is_usage, line
from jobfarm_worker.handlers.payloads import call_of
from jobfarm_worker.handlers.retrying import DELAYS_S, BrokenStreamError, retried
from jobfarm_worker.job import Job

ANSWER_S = 600.0  # a model that is being loaded sends nothing for minutes
MODELS_S = 10.0
log = logging.getLogger("jobfarm_worker")


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

    async def models(self) -> list[str]:
        """The models of the server; none while it does not answer."""
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
        async with self._client(ANSWER_S) as client:
            if body.get("stream"):
                return await self._streamed(client, path, body, job)
            answer = await self._whole(client, path, body)
        return answers.handed_in(job, path, answer)

    def _client(self, timeout_s: float) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=self._url, api_key=self._key, max_retries=0, timeout=timeout_s)

    async def _whole(self, client: openai.AsyncOpenAI, path: str, body: dict[str, Any]) -> Any:
        async def ask() -> Any:
            response = await client.post(f"/{path}", cast_to=httpx.Response, body=body)
            try:
                return response.json()
            except ValueError as error:
                raise BrokenStreamError(f"It is no JSON: {error}.") from error

        return await self._retried(ask, may_retry=lambda: True)

    async def _streamed(
        self, client: openai.AsyncOpenAI, path: str, body: dict[str, Any], job: Job
    ) -> dict[str, Any]:
        whole = Whole()

        async def ask() -> None:
            nonlocal whole
            whole = Whole()
            await _pass_on(client, path, body, whole, job)

        # What the caller has read cannot be taken back.
        await self._retried(ask, may_retry=lambda: not whole.has_token)
        result: dict[str, Any] = answers.handed_in(job, path, whole.answer())
        return result

    async def _retried(self, request: Any, *, may_retry: Any) -> Any:
        try:
            return await retried(request, may_retry=may_retry, rng=self._rng, delays_s=self._delays_s)
        except Failed as failed:
            raise _with_answer(failed) from failed.__cause__


async def _pass_on(
    client: openai.AsyncOpenAI, path: str, body: dict[str, Any], whole: Whole, job: Job
) -> None:
    """Write the chunks of one answer as they come. Those before the first token are kept back: an attempt that ends
    before it left nothing behind."""
    options = body.get("stream_options")
    wants_usage = isinstance(options, dict) and bool(options.get("include_usage"))
    counted = {**(options if isinstance(options, dict) else {}), "include_usage": True}  # for the result
    held: list[str] = []
    async for chunk in _chunks(client, path, {**body, "stream_options": counted}):
        is_first = not whole.has_token
        whole.add(chunk)
        if wants_usage or not is_usage(chunk):
            held.append(line(chunk))
        if whole.has_token:
            if is_first:
                job.progress(detail=f"{whole.model or body.get('model')} is writing"[:200])
            job.write("".join(held))
            held.clear()
    if not whole.is_finished:
        raise BrokenStreamError("The stream just ended.")


async def _chunks(client: openai.AsyncOpenAI, path: str, body: dict[str, Any]) -> Any:
    stream = await client.post(
        f"/{path}", cast_to=object, body=body, stream=True, stream_cls=openai.AsyncStream[object]
    )
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
