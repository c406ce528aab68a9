"""What the calls of every app's API share: who calls, the form of a refusal, examples in the document."""

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, Final

from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja.params import functions as parameters
from pydantic import BaseModel, Field

from core.refusal import Refusal
from core.values import BIGINT

# The statuses of refusals that the document names for each call.
REFUSALS: Final = frozenset({400, 401, 403, 404, 409, 410, 413, 415, 422, 429, 503})
MOST_LISTED: Final = 200
# Of lists, newest first: where the next page begins, and how long one is.
Cursor = Annotated[
    int | None, parameters.Query(..., ge=1, le=BIGINT, description="`next` of the page before this one.")
]
Limit = Annotated[int, parameters.Query(..., ge=1, le=MOST_LISTED)]
_EXAMPLES: Final = {"LEASE": "1-9f86d081", "JOB": "7"}


class Problem(BaseModel):
    """Why a call was refused; a refusal's numbers stand beside these."""

    model_config = {"extra": "allow"}

    error: str = Field(description="For programs.", examples=["lease_lost"])
    message: str = Field(description="For people.")


class UnknownParameter(Refusal, code="invalid", http_status=422):
    """{field}: {why}."""


def caller(request: HttpRequest) -> User:
    """Who calls, as the way in (`accounts.http.callers`) established it."""
    user: User = request.auth  # type: ignore[attr-defined]  # set by ninja
    return user


def refuse_unknown_parameters(request: HttpRequest, known: Iterable[str]) -> None:
    """Raise UnknownParameter if the query string holds a parameter that is not `known`."""
    for name in request.GET.keys() - set(known):
        raise UnknownParameter(field=name, why="there is no such parameter")


def with_body(description: str) -> dict[str, Any]:
    """What a call's document has besides, so that the page's "Try it out" begins with the body of its curl example.

    A ValueError for a description without one.
    """
    match = re.search(r"-d '(.*)'$", description, re.MULTILINE)
    if match is None:
        raise ValueError(f"no body in {description!r}")
    body = json.loads(re.sub(r"'\$([A-Z]+)'", lambda name: _EXAMPLES[name[1]], match[1]))
    return {"requestBody": {"content": {"application/json": {"example": body}}}}


def documented(
    summary: str, description: str, answer: Any, *, status: int = 200, has_body: bool = False
) -> dict[str, Any]:
    """What a route is told beside its path and who may call: its words, and what it answers with or refuses by."""
    extra = {"openapi_extra": with_body(description)} if has_body else {}
    responses = {status: answer, REFUSALS: Problem}
    return {"response": responses, "summary": summary, "description": description, **extra}
