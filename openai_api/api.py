"""The calls of OpenAI's API. Who waits for an answer waits outside of Django (`waiting`)."""

from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from ninja import Router

from accounts import http as people
from accounts.http import TokenAuth
from jobs import http as jobs_http
from jobs import operations as jobs
from openai_api import http, operations
from openai_api.errors import UnknownModel

router = Router(auth=TokenAuth("submit"))


def _user(request: HttpRequest) -> User:
    user: User = request.auth  # type: ignore[attr-defined]  # set by ninja
    return user


@router.get("/models")
def list_models(request: HttpRequest) -> dict[str, Any]:
    """The models that a live worker offers the caller now."""
    offered = operations.models(_user(request))
    return {"object": "list", "data": [_model(name, at.timestamp()) for name, at in offered.items()]}


@router.get("/models/{path:model}")
def show_model(request: HttpRequest, model: str) -> dict[str, Any]:
    """One of them."""
    offered = operations.models(_user(request))
    if model not in offered:
        raise UnknownModel(model=model, offered=", ".join(offered) or "none", param="model")
    return _model(model, offered[model].timestamp())


@router.post("/{openaicall:path}")
def create(request: HttpRequest, path: str) -> HttpResponse:
    """Make a call: a job, once for each Idempotency-Key. A repeat waits for the same job."""
    user, call, key = _user(request), http.call(request, path), http.idempotency_key(request)
    repeatable = None if key is None else jobs.repeatable(user, key, [request.path, call.body])
    [job_id] = jobs.once(
        repeatable,
        count=lambda: jobs_http.count_submitted(request, user),
        submit=lambda: [
            operations.submit(
                call, user=user, token_id=people.token_id(request), may_wait=jobs_http.may_wait(request)
            )
        ],
    )
    assert isinstance(job_id, int)  # calls have no unique key, so none is refused for a twin
    made = operations.Made(job_id=job_id, path=path, is_stream=call.is_stream)
    is_kept = key is not None or request.headers.get(http.BACKGROUND, "").lower() in {"1", "true"}
    return http.waits(made, user_id=user.pk, is_stream=call.is_stream, is_kept=is_kept)


@router.get("/{openaicall:path}/{jobid:job_id}")
def retrieve(request: HttpRequest, path: str, job_id: int) -> HttpResponse:
    """The answer of a call, when it has ended."""
    made = operations.find(job_id, path=path, user=_user(request))
    if made.ended is not None:
        return http.answer(made, made.ended)
    return http.waits(made, user_id=_user(request).pk, is_stream=False, is_kept=True)


@router.get("/{openaicall:path}/{jobid:job_id}/events")
def events(request: HttpRequest, path: str, job_id: int) -> HttpResponse:
    """The chunks of a call, from its beginning or after `Last-Event-ID`."""
    made = operations.find(job_id, path=path, user=_user(request))
    return http.waits(made, user_id=_user(request).pk, is_stream=True, is_kept=True)


def _model(name: str, created: float) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": int(created), "owned_by": "jobfarm"}
