"""`/v1/files` and `/v1/batches`."""

from datetime import datetime
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import BaseModel, Field

from accounts import http as people
from accounts.http import TokenAuth
from core import values
from core.api import caller as _user
from jobs import http as jobs_http
from openai_api import http
from openai_api.domain.batches import BatchStatus
from openai_api.errors import InvalidCall
from openai_api.models import Batch, File
from openai_api.operations import batches, files

router = Router(auth=TokenAuth("submit"))
MOST_FILES = 10_000  # in one answer, as at OpenAI


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


@router.post("/files")
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


@router.get("/files")
def list_files(request: HttpRequest, filters: Query[FileListing]) -> dict[str, Any]:
    """The caller's files, newest first unless `order` is `asc`."""
    rows, has_more = files.listed(
        _user(request), purpose=filters.purpose, after=filters.after, limit=filters.limit,
        is_ascending=filters.order == "asc",
    )  # fmt: skip
    return http.list_of([_file(each) for each in rows], has_more=has_more)


@router.get("/files/{file_id}")
def show_file(request: HttpRequest, file_id: str) -> dict[str, Any]:
    return _file(files.find(file_id, user=_user(request)))


@router.get("/files/{file_id}/content")
def read_file(request: HttpRequest, file_id: str) -> HttpResponseBase:
    """Its bytes; from a bucket by a redirect to a signed address."""
    return jobs_http.sent(request, files.find(file_id, user=_user(request)))


@router.delete("/files/{file_id}")
def delete_file(request: HttpRequest, file_id: str) -> dict[str, Any]:
    files.delete(file_id, user=_user(request))
    return {"id": file_id, "object": "file", "deleted": True}


@router.post("/batches")
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


@router.get("/batches")
def list_batches(request: HttpRequest, filters: Query[http.Listing]) -> dict[str, Any]:
    rows, has_more = batches.listed(_user(request), after=filters.after, limit=filters.limit)
    return http.list_of([_batch(each) for each in rows], has_more=has_more)


@router.get("/batches/{batch_id}")
def show_batch(request: HttpRequest, batch_id: str) -> dict[str, Any]:
    return _batch(batches.find(batch_id, user=_user(request)))


@router.post("/batches/{batch_id}/cancel")
def cancel_batch(request: HttpRequest, batch_id: str) -> dict[str, Any]:
    user = _user(request)
    return _batch(batches.cancel(batches.find(batch_id, user=user).pk, by=user))


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
        "id": batch.public_id, "object": "batch", "endpoint": f"/v1/{batch.endpoint}", "errors": errors,
        "input_file_id": _id(batch.input_file), "completion_window": batch.completion_window,
        "status": batch.status, "output_file_id": _id(batch.output_file), "error_file_id": _id(batch.error_file),
        "created_at": _unix(batch.created_at), "in_progress_at": _unix(batch.in_progress_at),
        "expires_at": _unix(batch.expires_at), "finalizing_at": _unix(batch.finalizing_at), **moments,
        "cancelling_at": _unix(batch.cancelling_at), "metadata": batch.metadata or None,
        "request_counts": {"total": batch.total, "completed": batch.completed, "failed": batch.failed},
    }  # fmt: skip


_ENDS = (BatchStatus.COMPLETED, BatchStatus.FAILED, BatchStatus.EXPIRED, BatchStatus.CANCELLED)


def _id(file: File | None) -> str | None:
    return None if file is None else file.public_id


def _unix(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())
