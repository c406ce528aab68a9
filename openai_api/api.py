"""The calls of OpenAI's API, and its files and batches. Who waits for an answer waits outside of Django (`waiting`)."""

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import BaseModel, Field

from accounts import http as people
from accounts.http import TokenAuth
from core import values
from core.api import caller as _user
from core.recent import Outdated
from core.refusal import Refusal
from jobs import http as jobs_http, operations as jobs
from observing import fields
from openai_api import domain, http, operations
from openai_api.domain import messages
from openai_api.domain.batches import BatchStatus
from openai_api.errors import InvalidCall, UnknownModel
from openai_api.models import Batch, File
from openai_api.operations import batches, call_hooks, earlier, files

router, files_router = Router(auth=TokenAuth(http.SCOPE)), Router(auth=TokenAuth(http.SCOPE))
MOST_FILES: Final = 10_000  # in one answer, as at OpenAI


@router.get("/models")
def list_models(request: HttpRequest) -> dict[str, Any]:
    """The models that a live worker offers the caller now."""
    offered = operations.models(_user(request), token_id=people.token_id(request))
    if messages.HEADERS[0] in request.headers:
        listed = [messages.model(name, at) for name, at in offered.items()]
        return http.list_of(listed, has_more=False)
    return {"object": "list", "data": [_model(name, at.timestamp()) for name, at in offered.items()]}


@router.get("/models/{path:model}")
def show_model(request: HttpRequest, model: str) -> dict[str, Any]:
    offered = operations.models(_user(request), token_id=people.token_id(request))
    if model not in offered:
        raise UnknownModel(model=model, offered=", ".join(offered) or "none", param="model")
    return _model(model, offered[model].timestamp())


@router.post("/{openaicall:path}", auth=TokenAuth(http.SCOPE, recognizes=True))
def create(request: HttpRequest, path: str) -> HttpResponse:
    """Make a call: a job, once for each Idempotency-Key. A repeat waits for the same job."""
    call, key, labels = http.call(request, path), http.idempotency_key(request), http.labels(request)
    call = replace(call, is_kept=call.is_background or key is not None or http.is_background(request))
    attempt = http.attempt_of(request, call, key=key)
    if (
        key is not None or attempt.is_repeated or path in domain.AUDIO or http.wants_cache(request)
        or call_hooks.is_hooked(path)
    ):  # fmt: skip
        people.look_up(request, http.SCOPE)  # a remembered token is good for nothing but to store a job
    user, token_id = _user(request), people.token_id(request)
    made = operations.take_over(attempt.fingerprint, path=path, user=user) if attempt.is_repeated else None
    if made is not None:
        return http.waits(
            made, user_id=user.pk, is_stream=call.is_stream, is_kept=call.is_kept, again=attempt.fingerprint
        )
    repeatable = None if key is None else jobs.repeatable(user, key, http.fingerprint(request, call))
    call, notes = call_hooks.before(call, user=user, token_id=token_id)
    lookup = _look(request, call, labels)
    limits = {http.CACHE: lookup.status} if lookup.status else {}
    if lookup.job_id is not None:
        return http.waits(
            operations.find(lookup.job_id, path=path, user=user), user_id=user.pk, is_stream=call.is_stream,
            is_kept=True, limits=limits,
        )  # fmt: skip
    new: list[operations.Made] = []

    def submit() -> list[int]:
        new.append(_submitted(request, call, labels))
        call_hooks.note(new[-1].job_id, notes)
        lookup.keep(new[-1].job_id)
        return [new[-1].job_id]

    with jobs.stored_ahead([call.payload], owner_id=user.pk, unless=lambda: jobs.is_known(repeatable)):
        [job_id] = jobs.once(repeatable, count=lambda: limits.update(http.count(request, user, call)), submit=submit)
    assert isinstance(job_id, int)  # calls have no unique key, so none is refused for a twin
    fields.note(job_id=job_id)
    if call.is_background and not call.is_stream:
        return http.response(job_id, operations.response(job_id, user=user))
    made = new[-1] if new else operations.find(job_id, path=path, user=user)
    return http.waits(
        made, user_id=user.pk, is_stream=call.is_stream, is_kept=call.is_kept, is_new=key is None,
        again=attempt.fingerprint, limits=limits,
    )  # fmt: skip


@router.get("/{openaicall:path}/{jobid:job_id}")
def retrieve(request: HttpRequest, path: str, job_id: int) -> HttpResponseBase:
    """The answer of a call, when it has ended."""
    made = operations.find(job_id, path=path, user=_user(request))
    if made.ended is not None:
        return http.answer(made, made.ended)
    return http.waits(made, user_id=_user(request).pk, is_stream=False, is_kept=True)


@router.get("/{openaicall:path}/{jobid:job_id}/events")
def events(request: HttpRequest, path: str, job_id: int) -> HttpResponse:
    """The chunks of a call, from its beginning or after `Last-Event-ID`."""
    if path == domain.SPEECH:
        raise InvalidCall(param="path", why="a sound comes whole, and has no events")
    made = operations.find(job_id, path=path, user=_user(request))
    return http.waits(made, user_id=_user(request).pk, is_stream=True, is_kept=True)


@router.get("/responses/{responseid:response_id}")
def retrieve_response(request: HttpRequest, response_id: int) -> HttpResponse:
    """A response as it is now, or its events behind `starting_after`."""
    user, wanted = _user(request), http.Retrieval.model_validate(request.GET.dict())
    if not wanted.stream:
        return http.response(response_id, operations.response(response_id, user=user))
    after, made = wanted.starting_after, operations.find(response_id, path=domain.RESPONSES, user=user)
    if not made.is_stream:
        raise InvalidCall(param="stream", why="this response was not made with stream, so it has no events")
    return http.waits(made, user_id=user.pk, is_stream=True, is_kept=True, after=after)


@router.post("/responses/{responseid:response_id}/cancel")
def cancel_response(request: HttpRequest, response_id: int) -> HttpResponse:
    """Cancel a response; one that has ended stays as it is."""
    return http.response(response_id, operations.cancel_response(response_id, user=_user(request)))


@router.delete("/responses/{responseid:response_id}")
def delete_response(request: HttpRequest, response_id: int) -> None:
    """Refused: jobs are records, which go after the time that the farm keeps them."""
    operations.refuse_deletion(response_id, user=_user(request))


@router.get("/responses/{responseid:response_id}/input_items")
def list_input_items(request: HttpRequest, response_id: int) -> HttpResponse:
    """What the model got for a response, the latest first unless `order` says otherwise."""
    items = operations.input_items(response_id, user=_user(request))
    return http.response(response_id, http.page(http.Listing.model_validate(request.GET.dict()), items))


class FileListing(http.Listing):
    """Which files are asked for."""

    limit: int = Field(MOST_FILES, ge=1, le=MOST_FILES)
    purpose: str | None = None


class NewBatch(BaseModel):
    """What a batch is made of."""

    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: Any = None


@files_router.post("/files")
def upload(request: HttpRequest) -> dict[str, Any]:
    """Keep a file: a form with `file` and `purpose`, and `expires_after[seconds]` if wanted."""
    content = request.FILES.get("file")
    if not isinstance(content, UploadedFile):
        raise InvalidCall(param="file", why="a form (multipart/form-data) with the file is needed")
    made = files.create(
        content, name=content.name or "", purpose=str(request.POST.get("purpose", "")), user=_user(request),
        expires_s=_expiry(request.POST),
    )  # fmt: skip
    return _file(made)


@files_router.get("/files")
def list_files(request: HttpRequest, filters: Query[FileListing]) -> dict[str, Any]:
    """The caller's files, newest first unless `order` is `asc`."""
    rows, has_more = files.listed(
        _user(request), purpose=filters.purpose, after=filters.after, limit=filters.limit,
        is_ascending=filters.order == "asc",
    )  # fmt: skip
    return http.list_of([_file(each) for each in rows], has_more=has_more)


@files_router.get("/files/{file_id}")
def show_file(request: HttpRequest, file_id: str) -> dict[str, Any]:
    return _file(files.find(file_id, user=_user(request)))


@files_router.get("/files/{file_id}/content")
def read_file(request: HttpRequest, file_id: str) -> HttpResponseBase:
    """Its bytes; from a bucket by a redirect to a signed address."""
    return jobs_http.sent(request, files.find(file_id, user=_user(request)))


@files_router.delete("/files/{file_id}")
def delete_file(request: HttpRequest, file_id: str) -> dict[str, Any]:
    files.delete(file_id, user=_user(request))
    return {"id": file_id, "object": "file", "deleted": True}


@files_router.post("/batches")
def create_batch(request: HttpRequest) -> dict[str, Any]:
    """Make a batch of the lines of a file. It counts as one submit."""
    new = NewBatch.model_validate(values.loads(request.body))
    if not http.keeps_content(request):
        raise InvalidCall(
            param="input_file_id", why="a batch keeps prompts and answers, and this token, or the farm, does not"
        )
    jobs_http.count_submitted(request, _user(request))
    made = batches.create(
        input_file_id=new.input_file_id, endpoint=new.endpoint, window=new.completion_window, metadata=new.metadata,
        user=_user(request), token_id=people.token_id(request),
    )  # fmt: skip
    return _batch(made)


@files_router.get("/batches")
def list_batches(request: HttpRequest, filters: Query[http.Listing]) -> dict[str, Any]:
    rows, has_more = batches.listed(_user(request), after=filters.after, limit=filters.limit)
    return http.list_of([_batch(each) for each in rows], has_more=has_more)


@files_router.get("/batches/{batch_id}")
def show_batch(request: HttpRequest, batch_id: str) -> dict[str, Any]:
    return _batch(batches.find(batch_id, user=_user(request)))


@files_router.post("/batches/{batch_id}/cancel")
def cancel_batch(request: HttpRequest, batch_id: str) -> dict[str, Any]:
    user = _user(request)
    return _batch(batches.cancel(batches.find(batch_id, user=user).pk, by=user))


def _submitted(request: HttpRequest, call: domain.Call, labels: dict[str, Any]) -> operations.Made:
    def submit() -> operations.Made:
        token = people.let_in_by(request)
        return operations.submit(
            call, user=_user(request), file=http.file_of(request), token_id=people.token_id(request),
            versions=token.versions if token else None, may_wait=jobs_http.may_wait(request),
            keep_content=people.keeps_content(request), **labels,
        )  # fmt: skip

    try:
        return submit()
    except (Outdated, Refusal):
        if not people.look_up(request, http.SCOPE):
            raise
        return submit()


def _look(request: HttpRequest, call: domain.Call, labels: dict[str, Any]) -> earlier.Lookup:
    if not http.wants_cache(request):
        return earlier.Lookup(status="")
    token_id, is_kept = people.token_id(request), http.keeps_content(request)
    return earlier.look(call, user=_user(request), token_id=token_id, labels=labels, is_kept=is_kept)


def _model(name: str, created: float) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": int(created), "owned_by": "jobfarm"}


def _expiry(form: QueryDict) -> float | None:
    text = form.get("expires_after[seconds]")
    if text is None:
        return None
    if form.get("expires_after[anchor]", "created_at") != "created_at":
        raise InvalidCall(param="expires_after", why="created_at is the only anchor")
    return float(text[:12]) if text.isascii() and text.isdigit() else -1.0


def _file(file: File) -> dict[str, Any]:
    return {
        "id": file.public_id, "object": "file", "bytes": file.size, "created_at": _unix(file.created_at),
        "expires_at": _unix(file.expires_at), "filename": file.name, "purpose": file.purpose,
        "status": "processed", "status_details": None,
    }  # fmt: skip


def _batch(batch: Batch) -> dict[str, Any]:
    ended = {status: batch.ended_at if batch.status == status else None for status in _ENDS}
    moments = {f"{status}_at": _unix(at) for status, at in ended.items()}
    errors = {"object": "list", "data": batch.errors} if batch.errors else None
    return {
        **batch.reported, "object": "batch", "errors": errors, "completion_window": batch.completion_window,
        "created_at": _unix(batch.created_at), "in_progress_at": _unix(batch.in_progress_at),
        "expires_at": _unix(batch.expires_at), "finalizing_at": _unix(batch.finalizing_at), **moments,
        "cancelling_at": _unix(batch.cancelling_at), "metadata": batch.metadata or None,
    }  # fmt: skip


_ENDS = (BatchStatus.COMPLETED, BatchStatus.FAILED, BatchStatus.EXPIRED, BatchStatus.CANCELLED)


def _unix(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())
