"""What clients upload for their jobs: the input files."""

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest
from ninja import Status
from ninja.params import functions as parameters

from accounts import http as people
from core.api import Calls, Sample, caller as _user
from jobs import http, operations
from jobs.protocol.clients import DeletedUpload, Upload

router = Calls(tags=["Clients"])
SUBMIT, READ = map(people.callers, ("submit", "read"))


@router.call("post", "/files", auth=SUBMIT, sample=Sample(query="name=sound.ogg", sends="sound.ogg"))
def upload(
    request: HttpRequest,
    name: Annotated[str, parameters.Query(..., description="What it is called.", examples=["sound.ogg"])],
) -> Status[Upload]:
    """Upload an input file.

    Keeps the request's body as a file that jobs of yours may be given: name its `id` in `files` of a submit, for as
    many jobs as you like. It is kept for 24 hours, and while a job uses it. It counts as your result files do: without
    room in your quota, or the farm's, 413 `quota_reached`. Names are plain (letters, digits, dots, dashes,
    underscores).
    """
    http.refuse_unknown_parameters(request, ["name"])
    with http.received(request) as content:
        kept = operations.upload(name, content, owner=_user(request))
    return Status(201, Upload.of(kept, expires_at=operations.expires_at(kept)))


@router.call("get", "/files/{uuid:file_id}", auth=READ)
def show(request: HttpRequest, file_id: UUID) -> Upload:
    """Look at an upload."""
    kept, expires_at = operations.uploaded(file_id, by=_user(request))
    return Upload.of(kept, expires_at=expires_at)


@router.call("delete", "/files/{uuid:file_id}", auth=SUBMIT)
def delete(request: HttpRequest, file_id: UUID) -> DeletedUpload:
    """Delete an upload.

    409 `file_in_use` while a job that has not ended uses it. From jobs that ended it is gone, too: they cannot be
    retried.
    """
    operations.delete_upload(file_id, by=_user(request))
    return DeletedUpload(id=file_id)
