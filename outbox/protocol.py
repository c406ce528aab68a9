"""What travels over the network: the bodies of requests about endpoints, messages and replays, and of their answers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from core.api import MOST_LISTED
from core.values import BIGINT, Body, Name, Number, Text, Whole, without_empty
from outbox import models, queries
from outbox.domain.addresses import LONGEST_URL
from outbox.domain.messages import LEAST_PER_MINUTE, PATTERNS, TYPES, EndpointStatus, Outcome, Status

_LONGEST_OVERLAP_S = 30 * 86_400
Pattern = Literal[*PATTERNS]  # type: ignore[valid-type]
# Inline in the document, whose definitions of all apps share their names.
MessageStatus = Annotated[Status, WithJsonSchema({"type": "string", "enum": [*Status]})]
AttemptOutcome = Annotated[Outcome, WithJsonSchema({"type": "string", "enum": [*Outcome]})]
Type = Literal[*TYPES]  # type: ignore[valid-type]
Url = Annotated[Text, Field(min_length=1, max_length=LONGEST_URL, examples=["https://hooks.example/jobfarm"])]
Events = Annotated[list[Pattern], Field(min_length=1, max_length=len(PATTERNS), examples=[["job.*"]])]
Kinds = Annotated[list[Name], Field(max_length=100, description="Only of jobs of these kinds; empty: of all.")]
PerMinute = Annotated[
    Number, Field(ge=LEAST_PER_MINUTE, le=1e9, description="Messages a minute at most; null: no bound.")
]
Id = Annotated[Whole, Field(ge=1, le=BIGINT)]


class ChangedEndpoint(Body):
    """What is to be otherwise of an endpoint; what is left out stays."""

    name: Name = ""
    url: Url = ""
    events: Events = []
    kinds: Kinds = []
    with_result: bool = False
    per_minute: PerMinute | None = None


class NewEndpoint(ChangedEndpoint):
    """An endpoint to make."""

    name: Name
    url: Url
    events: Events = ["job.*"]
    with_result: bool = Field(False, description="Send a job's result along, up to OUTBOX_RESULT_BYTES.")
    for_farm: bool = Field(False, description="Events of the whole farm instead of yours; for operators.")


class NewSecret(Body):
    """How a secret is rotated."""

    overlap_s: Annotated[Whole, Field(ge=0, le=_LONGEST_OVERLAP_S)] = Field(
        86_400, description="For so long the secrets before sign along."
    )
    secret: Annotated[Text, Field(max_length=200)] | None = Field(
        None, description="`whsec_` and base64 of 24 to 64 bytes; null: the farm makes one.", examples=[None]
    )


class EndpointSecret(BaseModel):
    """A secret that signs now, by its fingerprint."""

    model_config = ConfigDict(from_attributes=True)

    fingerprint: str
    created_at: datetime
    retired_at: datetime | None = Field(description="Until when it signs; null: until it is rotated.")


class Endpoint(BaseModel):
    """Where events go."""

    id: int
    name: str
    url: str
    owner: str | None = Field(description="Null: that of `for_farm`.")
    for_farm: bool = Field(description="It gets events of the whole farm.")
    events: list[str]
    kinds: list[str]
    with_result: bool
    per_minute: float | None
    is_callback: bool = Field(description="Made by `callback_url` of a submit; it gets those jobs alone.")
    status: EndpointStatus
    note: str = Field(description="Why it is paused or disabled.")
    held_until: datetime | None = Field(description="Left alone until then, as its Retry-After asked.")
    failing_since: datetime | None = Field(description="No attempt has succeeded since then.")
    last_failure: str = Field(description="What the last attempt came to, while it fails.")
    created_at: datetime
    waiting: int = Field(description=f"Messages that wait, counted up to {queries.COUNTED}.")
    dead: int = Field(description=f"Messages that were given up, counted up to {queries.COUNTED}.")
    last_delivered_at: datetime | None

    @classmethod
    def of(cls, row: models.Endpoint, **more: Any) -> Self:
        own = {name: getattr(row, name) for name in Endpoint.model_fields if name not in {"owner", "for_farm"}}
        owner = row.owner.get_username() if row.owner else None
        return cls(owner=owner, for_farm=row.owner is None, **own, **more)


class EndpointInFull(Endpoint):
    """An endpoint with what its messages are signed with."""

    secrets: list[EndpointSecret]


class EndpointWithSecret(EndpointInFull):
    """An endpoint with its new secret, which is in this answer and nowhere else."""

    secret: str = Field(examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])


class Endpoints(BaseModel):
    """Endpoints, newest first."""

    endpoints: list[Endpoint]
    next: int | None = Field(description="Ask for the next page with `cursor=` this; null: there is none.")


class SentTest(BaseModel):
    """What a test event came to."""

    messages: int = Field(description="0: the endpoint is disabled.")


class MessageFilters(BaseModel):
    """Which messages to list. Several filters must all match; one that is empty is none."""

    _without_empty = model_validator(mode="before")(without_empty)

    endpoint: Annotated[int, Field(ge=1, le=BIGINT)] | None = None
    status: MessageStatus | None = None
    type: Type | None = None
    subject: Annotated[Text, Field(max_length=200)] | None = Field(
        None, description="What it is about.", examples=["job/7"]
    )
    cursor: Annotated[int, Field(ge=1, le=BIGINT)] | None = Field(
        None, description="`next` of the page before this one."
    )
    limit: Annotated[int, Field(ge=1, le=MOST_LISTED)] = 50


class NewMessageReplay(Body):
    """Which messages to send once more: those that have ended and match all of it."""

    endpoint: Id | None = None
    status: Literal[Status.DELIVERED, Status.DEAD] | None = None
    type: Type | None = None
    subject: Annotated[Text, Field(max_length=200)] | None = Field(None, examples=[None])
    dry_run: bool = Field(False, description="Count what matches, and send nothing.")


class MessageAttempt(BaseModel):
    """One request, and what it was answered."""

    model_config = ConfigDict(from_attributes=True)

    number: int
    started_at: datetime
    duration_ms: int
    outcome: AttemptOutcome
    http_status: int | None
    error: str = Field(description="Why there was no answer.")
    answer: str = Field(description="The first 4 kB of it.")


class Message(BaseModel):
    """One event on its way to one endpoint."""

    id: int
    endpoint: int
    webhook_id: str = Field(description="The same at every attempt.")
    type: str
    subject: str
    status: MessageStatus
    attempts: int = Field(description="Since it was made, or last replayed.")
    next_attempt_at: datetime | None = Field(
        description="At the latest, of one that waits for an earlier message of its subject."
    )
    note: str = Field(description="How the last attempt failed.")
    occurred_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, row: models.Message, **more: Any) -> Self:
        same = ("subject", "status", "attempts", "next_attempt_at", "note", "ended_at")
        event = row.event
        return cls(
            id=row.pk, endpoint=row.endpoint_id, webhook_id=f"msg_{event.uid.hex}", type=event.type,
            occurred_at=event.occurred_at, **{name: getattr(row, name) for name in same}, **more,
        )  # fmt: skip


class MessageInFull(Message):
    """A message with its body and its attempts."""

    body: str = Field(description="As it is sent: JSON.")
    history: list[MessageAttempt] = Field(description="The newest attempt first.")

    @classmethod
    def with_attempts(cls, row: models.Message, attempts: Sequence[models.Attempt]) -> Self:
        return cls.of(row, body=queries.body_of(row), history=[MessageAttempt.model_validate(one) for one in attempts])


class Messages(BaseModel):
    """Messages, newest first."""

    messages: list[Message]
    next: int | None = Field(description="Ask for the next page with `cursor=` this; null: there is none.")


class MessageReplay(BaseModel):
    """How far a replay of many is."""

    id: int | None = Field(description="Null: nothing matched, or nothing was to be sent.")
    matched: int = Field(description="How many matched when it began, counted up to 100000.")
    replayed: int
    is_over: bool
    status: str | None = Field(description="Of its newest batch: success, canceled, failed.")

    @classmethod
    def of(cls, row: queries.Replay | None, *, matched: int = 0) -> Self:
        """The wire form of a replay; None: none was begun, of so many messages."""
        if row is None:
            return cls(id=None, matched=matched, replayed=0, is_over=True, status=None)
        return cls(id=row.first, matched=row.matched, replayed=row.handled, is_over=row.is_over, status=row.status)
