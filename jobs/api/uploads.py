"""What clients upload for their jobs: the input files."""

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest
from ninja import Router, Status
from ninja.params import functions as parameters

from accounts import http as people
from core.api import caller as _user
from core.api import documented
from jobs import http, operations
from jobs.api import documents
from jobs.protocol.clients import DeletedUpload, Upload

router = Router(tags=["Clients"])
SUBMIT, READ = map(people.callers, ("submit", "read"))


@router.post(
    "/files",
    auth=SUBMIT,
    openapi_extra=documents.ANY_BYTES,
    **documented("Upload an input file", documents.UPLOAD, Upload, status=201),
)
def upload(
    request: HttpRequest,
    name: Annotated[str, parameters.Query(..., description="What it is called.", examples=["sound.ogg"])],
) -> Status[Upload]:
    http.refuse_unknown_parameters(request, ["name"])
    with http.received(request) as content:
        kept = operations.upload(name, content, owner=_user(request))
    return Status(201, Upload.of(kept, expires_at=operations.expires_at(kept)))


@router.get("/files/{uuid:file_id}", auth=READ, **documented("Look at an upload", documents.SHOW_UPLOAD, Upload))
def show(request: HttpRequest, file_id: UUID) -> Upload:
    kept, expires_at = operations.uploaded(file_id, by=_user(request))
    return Upload.of(kept, expires_at=expires_at)


@router.delete(
    "/files/{uuid:file_id}", auth=SUBMIT, **documented("Delete an upload", documents.DELETE_UPLOAD, DeletedUpload)
)
def delete(request: HttpRequest, file_id: UUID) -> DeletedUpload:
    operations.delete_upload(file_id, by=_user(request))
    return DeletedUpload(id=file_id)
