"""What HTTP adds: the path of a call, its body, and its answers."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, Literal
from urllib.parse import quote

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import register_converter
from django.urls.converters import StringConverter
from pydantic import Field, ValidationInfo, field_validator

from accounts import http as people
from accounts.errors import InsufficientScope
from core import api, values
from core.refusal import Refusal
from jobs import http as jobs_http, limits, operations as jobs
from jobs.domain.files import plain_name
from jobs.errors import InvalidValue
from openai_api import domain, operations
from openai_api.domain import messages
from openai_api.errors import CallsLimited, InvalidCall, UnknownCall
from openai_api.kinds import CALL
from openai_api.operations import Ended, Made, names
from ratelimits import operations as ratelimits
from ratelimits.errors import RateLimited
from ratelimits.operations import Config, LimitRequest, TokenBucket

SCOPE: Final = "submit"  # of the tokens that make calls, and get their answers
JOB_ID: Final = "X-Job-Id"
MODEL: Final = "X-Model"
BACKGROUND: Final = "X-Background"
CACHE: Final = "X-Cache"
LABELS: Final = {"requires": "X-Requires", "prefers": "X-Prefers"}
ATTEMPT: Final = "X-Stainless-Retry-Count"
FORM: Final = "multipart/form-data"
_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_KEY: Final = re.compile(r"[ -~]{1,255}")
_SAFE: Final = "/:@+,()[] "  # beside letters, digits and _.-~ what a model's name has in a header as it is
_MINUTE: Final = timedelta(minutes=1)


_DECIDING: Final = (*LABELS.values(), BACKGROUND)  # headers that say what is asked for, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt of a client that repeats its calls; `fingerprint` is what all attempts of one call share. Of any other
    client it is empty."""

    is_repeated: bool = False
    fingerprint: str = ""


class CallConverter(StringConverter):
    regex = "|".join(domain.PATHS)


register_converter(CallConverter, "openaicall")


class ResponseIdConverter(jobs_http.JobIdConverter):
    """The id of a response: `resp_` and the number of its job, which views get."""

    regex = "resp_[0-9]{1,19}"

    def to_python(self, value: str) -> int:
        return super().to_python(value.removeprefix("resp_"))

    def to_url(self, value: int) -> str:
        return domain.response_id(value)


register_converter(ResponseIdConverter, "responseid")


def call(request: HttpRequest, path: str) -> domain.Call:
    """The call of this request. Raises InvalidCall, and NotJsonError where its body is no JSON."""
    if path not in domain.AUDIO:
        call = domain.call(path, api.loads(request, domain.BODY, most=settings.JOBFARM["PAYLOAD_BYTES"]))
        headers = {name: request.headers[name] for name in messages.HEADERS if name in request.headers}
        return replace(call, headers=headers) if messages.is_at(path) else call
    file = file_of(request)
    if file is None:
        raise InvalidCall(param="file", why="a sound is needed, in a form (multipart/form-data)")
    return domain.call(path, domain.form(dict(request.POST.lists())), file=plain_name(file.name or "sound"))


def fingerprint(request: HttpRequest, call: domain.Call) -> list[Any]:
    """What this request asks for: a repeat of it asks for the same."""
    digest = hashlib.sha256()
    for chunk in file.chunks() if (file := file_of(request)) is not None else ():
        digest.update(chunk)
    return [request.path, call.body, digest.hexdigest()] if file else [request.path, call.body]


def attempt_of(request: HttpRequest, call: domain.Call, *, key: str | None) -> Attempt:
    """Which attempt of a client that repeats its calls by itself this is, if it has no key. Raises InvalidJson."""
    count = request.headers.get(ATTEMPT, "")
    if key is not None or not _NUMBER.fullmatch(count):
        return Attempt()
    headers = (request.headers.get(name, "") for name in _DECIDING)
    decisive = [*fingerprint(request, call), people.token_id(request), *headers]
    return Attempt(is_repeated=int(count) > 0, fingerprint=jobs.repeatable(api.caller(request), None, decisive).key)


def idempotency_key(request: HttpRequest) -> str | None:
    """The key of a call that may be repeated, if it has one. Raises InvalidCall."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidCall(param="Idempotency-Key", why="1 to 255 printable ASCII characters")
    return key


def is_background(request: HttpRequest) -> bool:
    """Whether the job is to go on when its caller goes away, as a header says."""
    return request.headers.get(BACKGROUND, "").lower() in {"1", "true"}


def keeps_content(request: HttpRequest) -> bool:
    """Whether what calls with this token are given and give is kept as it is."""
    return CALL.keep_content and not CALL.redact and people.keeps_content(request)


def wants_cache(request: HttpRequest) -> bool:
    """Whether an answer that was given before is welcome. Raises InvalidCall."""
    wanted = request.headers.get(CACHE)
    if wanted not in {None, "exact"}:
        raise InvalidCall(param=CACHE, why="exact is all there is")
    return wanted is not None


def labels(request: HttpRequest) -> dict[str, dict[str, str] | None]:
    """What this call requires and prefers of its worker's labels, by headers. Raises InvalidCall."""
    try:
        return {name: jobs_http.conditions(request, header) for name, header in LABELS.items()}
    except InvalidValue as refusal:
        raise InvalidCall(param=refusal.field, why=refusal.numbers["why"]) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """A call that somebody waits for, outside of Django (`waiting`).

    `is_kept`: the job goes on when the caller goes away. `after`: the number of the last event that the caller has.
    `is_new`: the job was made by this request. `again`: by what the same call is known, of a client that repeats it.
    `limits`: headers of its answer. `may_move`: another model may answer it yet.
    """

    job_id: int
    user_id: int
    path: str
    model: str
    is_stream: bool
    is_kept: bool
    after: int | None = None
    is_new: bool = False
    again: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)
    may_move: bool = False


def waits(made: Made, **how: Any) -> HttpResponse:
    """The answer for who waits for this call: `how` are the other fields of its note, which is Awaited."""
    note = Awaited(job_id=made.job_id, path=made.path, model=made.model, may_move=made.may_move, **how)
    body = json.dumps({"id": made.job_id, "object": "job", "status": "in_progress"})
    headers = {JOB_ID: str(made.job_id)}
    return jobs_http.Noted(body, note=note, status=202, content_type="application/json", headers=headers)


def heads(job_id: int, model: str, limits: Mapping[str, str]) -> dict[str, str]:
    """The headers of an answer: its job, the model that answered where that is known, what is left of limits."""
    named = {MODEL: quote(model, safe=_SAFE)} if model else {}
    return {JOB_ID: str(job_id), **named, **limits}


def count(request: HttpRequest, user: User, call: domain.Call) -> dict[str, str]:
    """Take this call, and the tokens that it is expected to use, of the limits of its token and its person: what is
    left, in OpenAI's headers. Raises CallsLimited, CountExceedsLimit."""
    token_id = people.token_id(request)
    most = names.per_minute(user, token_id)
    configs = {f"calls/{unit}": TokenBucket(count, _MINUTE, capacity=count) for unit, count in most.items()}
    counts = {"calls/tokens": domain.expected(call.payload).total if "tokens" in most else 1}
    asks = [
        LimitRequest(name=name, key=f"token:{token_id}", count=counts.get(name, 1), config=config)
        for name, config in configs.items()
    ]  # fmt: skip
    try:
        answers = jobs_http.count_submitted(request, user, more=asks)
    except RateLimited as refusal:
        limited = CallsLimited(name=refusal.name, key=refusal.key, retry_after=refusal.retry_after)
        limited.limits = _left(refusal.name, configs, 0.0, full_s=refusal.retry_after.total_seconds())
        raise limited from None
    shown = [*configs, *(() if "requests" in most else (limits.SUBMIT_TOKEN,))]
    left = [_left(name, configs, answers[name].remaining or 0.0) for name in shown if name in answers]
    return {header: value for each in left for header, value in each.items()}


def _left(name: str, configs: Mapping[str, Config], remaining: float, *, full_s: float | None = None) -> dict[str, str]:
    """What is left of a limit, and in which time it is whole again, or of one that denied has enough."""
    unit = "tokens" if name == "calls/tokens" else "requests"
    config = ratelimits.config_of(name, configs.get(name))
    if full_s is None:
        full_s = (config.most - remaining) / config.rate * config.period.total_seconds()
    minutes, seconds = divmod(math.ceil(max(0.0, full_s)), 60)
    values = {"limit": f"{config.rate:.0f}", "remaining": f"{max(0, math.floor(remaining))}"}
    values["reset"] = f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
    return {f"x-ratelimit-{which}-{unit}": value for which, value in values.items()}


def awaited(note: Awaited, authorization: str) -> HttpResponseBase:
    """The answer of a call that somebody waited for, or a refusal where their key does not open it any more; without
    Django around it."""
    try:
        return answer(*_own(note, authorization), is_stream=note.is_stream, limits=note.limits)
    except Refusal as refusal:
        return refused(refusal, path=note.path)


def is_own(note: Awaited, authorization: str) -> bool:
    """Whether this key opens this call still."""
    try:
        _own(note, authorization)
    except Refusal:
        return False
    return True


def refused(refusal: Refusal, *, path: str) -> HttpResponse:
    """A refusal in the form of the calls at this path."""
    status, body = domain.refused(refusal.body, status=refusal.http_status, path=path)
    headers = {**refusal.headers, **domain.advice(refusal.headers)}
    return HttpResponse(json.dumps(body), status=status, content_type=domain.JSON, headers=headers)


def _own(note: Awaited, authorization: str) -> tuple[Made, Ended | None]:
    """The call and how it ended. Raises what refuses it."""
    token = people.token_of(authorization)
    if not token.may(SCOPE):
        raise InsufficientScope(scope=SCOPE, scopes=token.scopes)
    made = operations.find(note.job_id, path=note.path, user=token.user)
    return made, made.ended


def answer(
    made: Made, ended: Ended | None, *, is_stream: bool = False, limits: Mapping[str, str] | None = None
) -> HttpResponseBase:
    """The answer of a call that has ended, unread where it is a file and not for an event of a stream. Raises
    UnknownCall of one that has not, BrokenAnswer."""
    if ended is None:
        raise UnknownCall
    ended = operations.decided(made.job_id, ended)
    if ended.file is not None and not is_stream:
        stored = operations.answer_file(made.job_id, ended)
        named = {"X-Content-Type-Options": "nosniff", "Content-Type": ended.content_type}
        return jobs_http.whole(stored, headers=heads(made.job_id, made.model, limits or {}) | named)
    content = operations.content(made.job_id, ended, path=made.path)
    if ended.status >= 400:
        content = domain.in_form(content, status=ended.status, path=made.path)
    text = json.dumps(content) if ended.content_type == domain.JSON else content
    headers = heads(made.job_id, made.model, limits or {})
    response = HttpResponse(text, status=ended.status, content_type=ended.content_type, headers=headers)
    response["X-Content-Type-Options"] = "nosniff"
    if ended.status >= 400:
        response[domain.NO_RETRY[0]] = domain.NO_RETRY[1]
    return response


def response(job_id: int, body: Mapping[str, Any]) -> HttpResponse:
    return HttpResponse(json.dumps(body), content_type=domain.JSON, headers={JOB_ID: str(job_id)})


def file_of(request: HttpRequest) -> UploadedFile | None:  # type: ignore[type-arg]  # no type parameter at run time
    """The file that came with a form; None where the call is none."""
    return request.FILES.get("file") if request.content_type == FORM else None


class Retrieval(values.Body):
    """How a response is asked for: whole, or its events behind the one with this `sequence_number`."""

    stream: bool = False
    starting_after: int | None = Field(None, ge=0, le=10**15)

    @field_validator("starting_after")
    @classmethod
    def _of_stream(cls, number: int | None, info: ValidationInfo) -> int | None:
        if number is not None and not info.data.get("stream"):
            raise ValueError("only with stream=true")
        return number


class Listing(values.Body):
    """Which part of a list is asked for."""

    after: str | None = None
    limit: int = Field(20, ge=1, le=100)
    order: Literal["asc", "desc"] = "desc"


def page(listing: Listing, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A page of these items as a list of OpenAI's. Raises InvalidCall."""
    listed = [*items] if listing.order == "asc" else [*reversed(items)]
    if listing.after is not None:
        ids = [item["id"] for item in listed]
        if listing.after not in ids:
            raise InvalidCall(param="after", why="the id of an item of this list")
        listed = listed[ids.index(listing.after) + 1 :]
    shown = listed[: listing.limit]
    return list_of(shown, has_more=len(listed) > len(shown))


def list_of(items: Sequence[Mapping[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """These items as a page of a list of OpenAI's."""
    ends = {"first_id": items[0]["id"] if items else None, "last_id": items[-1]["id"] if items else None}
    return {"object": "list", "data": items, "has_more": has_more, **ends}
