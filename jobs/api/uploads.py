"""What clients upload for their jobs: the input files."""

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest
from ninja import Router, Status
from ninja.params import functions as parameters

from accounts import http as people
from core.api import caller as _user
from jobs import http, operations
from jobs.api import documents
from jobs.protocol.clients import DeletedUpload, Problem, Upload

router = Router(tags=["Clients"])
SUBMIT, READ = map(people.callers, ("submit", "read"))


@router.post(
    "/files",
    auth=SUBMIT,
    response={201: Upload, documents.REFUSALS: Problem},
    summary="Upload an input file",
    description=documents.UPLOAD,
    openapi_extra=documents.ANY_BYTES,
)
def upload(
    request: HttpRequest,
    name: Annotated[str, parameters.Query(..., description="What it is called.", examples=["sound.ogg"])],
) -> Status[Upload]:
    """Keep the request's body for jobs to come."""
    http.refuse_unknown_parameters(request, ["name"])
    with http.received(request) as content:
        kept = operations.upload(name, content, owner=_user(request))
    return Status(201, Upload.of(kept, expires_at=operations.expires_at(kept)))


@router.get(
    "/files/{uuid:file_id}",
    auth=READ,
    response={200: Upload, documents.REFUSALS: Problem},
    summary="Look at an upload",
    description=documents.SHOW_UPLOAD,
)
def show(request: HttpRequest, file_id: UUID) -> Upload:
    """An upload of the caller's."""
    kept, expires_at = operations.uploaded(file_id, by=_user(request))
    return Upload.of(kept, expires_at=expires_at)


@router.delete(
    "/files/{uuid:file_id}",
    auth=SUBMIT,
    response={200: DeletedUpload, documents.REFUSALS: Problem},
    summary="Delete an upload",
    description=documents.DELETE_UPLOAD,
)
def delete(request: HttpRequest, file_id: UUID) -> DeletedUpload:
    """Delete an upload of the caller's."""
    operations.delete_upload(file_id, by=_user(request))
    return DeletedUpload(id=file_id)
