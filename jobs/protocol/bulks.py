"""A bulk action's calls and answers."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, Field, create_model

from core.values import BIGINT, Body, Moment, Text, Whole
from jobs import models
from jobs.domain import records
from jobs.domain.bulks import BulkAction, Phase
from jobs.domain.filters import DESCRIBED, Filter, Filters
from jobs.protocol.jobs import JobId

MOST_IDS: Final = 1000
MOST_LISTED: Final = 50
_ACTIONS: Final = tuple(action.value for action in BulkAction if action is not BulkAction.UNDO)
_ABOUT: Final = {
    "tag": "One tag, or several with commas between: jobs that have all of them.",
    "text": "As the search of the list: a text of payloads and errors, `key:value`.",
    "due": "Of pending jobs: due now, or later.",
    "age": "Submitted in the last hour, day, week or month.",
    "ids": "These jobs alone.",
}


def _tags(text: str) -> str:
    if not records.is_tags(text):
        raise ValueError(f"up to {records.MOST_TAGS} tags with commas between them")
    return text


def _type(described: Filter) -> Any:
    match described.type:
        case "choice":
            return Literal[tuple(value for value, _ in described.choices)]
        case "moment":
            return Moment
        case "ids":
            return Annotated[list[JobId], Field(min_length=1, max_length=MOST_IDS)]
        case "tags":
            return Annotated[Text, AfterValidator(_tags)]
    return Annotated[Text, Field(min_length=1, max_length=described.longest)]


_FIELDS: Final[dict[str, Any]] = {
    name: (_type(described) | None, Field(None, description=_ABOUT.get(name, described.about)))
    for name, described in DESCRIBED.items()
}


class BulkFilters(create_model("Every", __base__=Body, **_FIELDS)):  # type: ignore[misc]  # those of jobs.domain.filters
    """Which jobs are meant. Several filters must all fit; none: every job that you may act on."""

    def as_filters(self) -> Filters:
        return Filters.of({name: _text(value) for name, value in self if value is not None})


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value.isoformat() if isinstance(value, datetime) else str(value)


class NewBulk(Body):
    action: Literal[_ACTIONS]  # type: ignore[valid-type]  # those of jobs.domain.bulks
    filters: BulkFilters = Field(description="Which jobs are meant.", examples=[{"tag": "nightly"}])
    value: Text | Whole | None = Field(None, description="The new queue, or the new priority.", examples=[None])
    begin_up_to: Annotated[Whole, Field(ge=1, le=BIGINT)] | None = Field(
        None,
        description="Begin once they are counted, if no more jobs match than this. Else, and without it, it waits for "
        "`begin`.",
    )


class BulkState(BaseModel):
    id: int
    action: BulkAction
    value: str = Field(description="The new queue or priority; empty for other actions.")
    filters: dict[str, str] = Field(examples=[{"tag": "nightly"}])
    phase: Phase = Field(description="`ready`: they are counted, and nothing is done before `begin`.")
    matched: int = Field(description="Jobs that match; while it is `counting`, of those that were looked through.")
    handled: int = Field(description="Of these, how many it has come to.")
    changed: int = Field(description="Jobs that it changed.")
    results: dict[str, int] = Field(description="How many jobs had which result, in words.")
    by: str = Field(description="User name of who asked for it.")
    why: str = Field(description="Why it stopped; empty if it did not.")
    undoes: int | None = Field(description="The bulk action that this one undoes.")
    undone_by: int | None = Field(description="The bulk action that undoes this one.")
    created_at: datetime
    began_at: datetime | None
    ended_at: datetime | None


class BulkStates(BaseModel):
    """Bulk actions that were begun, the newest first."""

    bulk_actions: list[BulkState]


_SAME: Final = (
    *("id", "action", "value", "filters", "phase", "matched", "handled", "changed", "results", "why"),
    *("created_at", "began_at", "ended_at"),
)


def state(row: models.Bulk) -> BulkState:
    columns = {name: getattr(row, name) for name in _SAME}
    return BulkState(**columns, by=row.by.get_username(), undoes=row.undoes_id, undone_by=row.undone_by_id)
