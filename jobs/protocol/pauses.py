"""What can be paused: jobs of an owner, of a queue, or with a concurrency key."""

from datetime import datetime
from typing import Self

from pydantic import BaseModel, Field, model_validator

from core.values import Body, Text


class Waiting(Body):
    """Which jobs: of an owner, of a queue, or with a concurrency key of a kind or a queue."""

    owner: Text | None = Field(None, description="A username.", examples=["ada"])
    queue: Text | None = Field(None, examples=[None])
    kind: Text | None = Field(None, description="Of a concurrency key.", examples=[None])
    concurrency_key: Text | None = Field(None, examples=[None])

    @model_validator(mode="after")
    def is_one(self) -> Self:
        """One of the three, and nothing beside it."""
        scopes = [name for name in ("owner", "queue", "kind") if getattr(self, name) is not None]
        if len(scopes) != 1 or (scopes == ["owner"] and self.concurrency_key is not None):
            raise ValueError("name an owner, or a queue, or a concurrency_key with its kind or its queue")
        if scopes == ["kind"] and self.concurrency_key is None:
            raise ValueError("a kind is paused by its concurrency_key")
        return self


class Pause(BaseModel):
    """Whether they are paused, since when, and by whom."""

    paused: bool
    since: datetime | None = Field(description="Null where they are not paused.")
    by: str | None = Field(description="Null where code of the site did it.")
