"""What the calls of every app's API share: who calls, the form of a refusal, examples in the document."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin, get_type_hints

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from ninja import Router, Status
from ninja.params import functions as parameters
from pydantic import BaseModel, Field

from core import large_json, values
from core.large_json import Cutting
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
SAMPLE: Final = "x-sample"  # in the document, until its examples are written
_VALUES: Final = {"$LEASE": "1-9f86d081", "$JOB": 7}
_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_LAST_EVENT_ID: Final = {
    "in": "header",
    "name": "Last-Event-ID",
    "required": False,
    "schema": {"type": "string"},
    "description": "The id of the last event that arrived; the stream goes on behind it.",
}
_EVENT: Final = {  # one of the stream's
    "schema": {
        "type": "object",
        "properties": {
            "event": {"type": "string", "enum": ["job", "output", "end", "reset"]},
            "id": {"type": "string"},
            "data": {"type": "string", "description": "JSON, as the description of this call has it."},
        },
    }
}
View = TypeVar("View", bound=Callable[..., Any])


def loads(request: HttpRequest, cutting: Cutting | None, *, most: int = 0) -> Any:
    """The JSON value of a request's body; one that may be large is read in pieces, and cut, where it is (`large_json`).

    Raises NotJsonError, LargeBodyError.
    """
    length = request.META.get("CONTENT_LENGTH") or ""
    if cutting is None or (length.isdecimal() and int(length) <= cutting.over):
        return values.loads(request.body)
    return large_json.read(request, cutting, most=most)


class Problem(BaseModel):
    """Why a call was refused; a refusal's numbers stand beside these."""

    model_config = {"extra": "allow"}

    error: str = Field(description="For programs.", examples=["lease_lost"])
    message: str = Field(description="For people.")


class Deleted(BaseModel):
    """What is gone."""

    id: int
    deleted: bool = True


class UnknownParameter(Refusal, code="invalid", http_status=422):
    """{field}: {why}."""


class RightMissing(Refusal, code="forbidden", http_status=403):
    """This takes the right {right}."""


def caller(request: HttpRequest) -> User:
    """Who calls, as the way in (`accounts.http.callers`) established it."""
    user: User = request.auth  # type: ignore[attr-defined]  # set by ninja
    return user


def allowed(request: HttpRequest, right: str) -> User:
    """Who calls, if they have this right, such as `alerts.add_rule`. Raises RightMissing."""
    person = caller(request)
    if not person.has_perm(right):
        raise RightMissing(right=right)
    return person


def refused(refusal: Refusal) -> HttpResponse:
    """The answer to a request that is refused where no router does it."""
    return JsonResponse(refusal.body, status=refusal.http_status, headers=refusal.headers)


def refuse_unknown_parameters(request: HttpRequest, known: Iterable[str]) -> None:
    """Raise UnknownParameter if the query string holds a parameter that is not `known`."""
    for name in request.GET.keys() - set(known):
        raise UnknownParameter(field=name, why="there is no such parameter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the document's examples of a call send beside its address and its key, which the route says.

    `"$JOB"` and `"$LEASE"` in `body` are variables, as the ids in the address are. `sends` is a file whose bytes are
    the body, `keeps` where the bytes of the answer go, and `name` what such a file is called in the address, if not so.
    """

    body: Any = None
    query: str = ""
    sends: str = ""
    keeps: str = ""
    name: str = ""
    is_stream: bool = False


_NO_SAMPLE: Final = Sample()


class Calls(Router):
    """Routes that say themselves what they are: the function's docstring is summary and description, its annotation
    what it answers, and every refusal has the one form."""

    def call(
        self, method: str, path: str, *, answer: Any = Any, sample: Sample = _NO_SAMPLE, **options: Any
    ) -> Callable[[View], View]:
        """Add a route, as ninja's `get`, `post` and so on do. `answer` is for a function that returns a response
        itself; of a file that is fetched HEAD is answered too."""

        def add(view: View) -> View:
            summary, _, description = (inspect.getdoc(view) or "").partition("\n")
            status, answered = _answer(view, answer)
            if sample.keeps:
                self.api_operation(["HEAD"], path, response=Any, include_in_schema=False, **options)(view)
            return self.api_operation(
                [method.upper()], path, summary=summary.removesuffix("."), description=description.strip(),
                response={status: answered, REFUSALS: Problem}, openapi_extra=_beside(sample), **options,
            )(view)  # fmt: skip

        return add


def _answer(view: Callable[..., Any], answer: Any) -> tuple[int, Any]:
    returned = get_type_hints(view)["return"]
    if isinstance(returned, type) and issubclass(returned, HttpResponseBase):
        returned = answer
    return (201, get_args(returned)[0]) if get_origin(returned) is Status else (200, returned)


def _beside(sample: Sample) -> dict[str, Any]:
    """What a call's document has that types do not say; the sample itself, for who writes the examples."""
    beside: dict[str, Any] = {SAMPLE: sample}
    if sample.body is not None:  # the page's "Try it out" begins with it
        beside["requestBody"] = {"content": {"application/json": {"example": _filled(sample.body)}}}
    if sample.sends:
        meaning = "The file's bytes; not a form."
        beside["requestBody"] = {"required": True, "description": meaning, "content": _BYTES}
    if sample.keeps:
        beside["responses"] = {200: {"content": _BYTES}}
    if sample.is_stream:
        beside |= {"parameters": [_LAST_EVENT_ID], "responses": {200: {"content": {"text/event-stream": _EVENT}}}}
    return beside


def _filled(body: Any) -> Any:
    if isinstance(body, dict):
        return {name: _filled(value) for name, value in body.items()}
    if isinstance(body, list):
        return [_filled(value) for value in body]
    return _VALUES.get(body, body) if isinstance(body, str) else body
