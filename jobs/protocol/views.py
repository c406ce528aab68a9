"""Calls and answers about view tokens."""

from datetime import datetime
from typing import Annotated, Final, Self

from pydantic import BaseModel, Field, model_validator

from core.values import Body, Text, Whole
from jobs.domain.tags import LONGEST_TAG
from jobs.protocol.jobs import JobId

LONGEST_S: Final = 86_400
USUAL_S: Final = 900


class NewViewToken(Body):
    """For one job, or for one tag."""

    job: JobId | None = Field(None, examples=[7])
    tag: Annotated[Text, Field(min_length=1, max_length=LONGEST_TAG)] | None = Field(None, examples=[None])
    expires_in_s: Annotated[Whole, Field(ge=1, le=LONGEST_S)] = USUAL_S

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.job is None) == (self.tag is None):
            raise ValueError("a job or a tag is wanted, not both")
        return self


class ViewToken(BaseModel):
    """A view token, with the key that is in this answer alone."""

    id: int
    token: str = Field(examples=["jfv_..."])
    expires_at: datetime


class RevokedViewToken(BaseModel):
    """A view token that opens nothing any more."""

    id: int
    revoked: bool = True
