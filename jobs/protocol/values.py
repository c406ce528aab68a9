"""Values of jobs as they come from outside, beside those of every app (`core.values`)."""

from typing import Annotated

from pydantic import Field, Strict

from core.values import BIGINT, INTEGER, Body, Moment, Name, NotJsonError, Number, Text, Whole, loads

JobId = Annotated[Whole, Field(ge=1, le=BIGINT)]
# Any text: what cannot be a lease is a lost one (409), like every other that holds nothing.
# What a client calls one call of its own, so that it can be made again.
RequestId = Annotated[str, Strict(), Field(pattern=r"^[!-~]{1,64}$", examples=["0b7e6c1e-claim-17"])]
LeaseText = Annotated[str, Strict(), Field(examples=["3-6f1c0a4e8d2b4c7f9a3e5d1b7c8f0a2e"])]

__all__ = [
    "BIGINT", "INTEGER", "Body", "JobId", "LeaseText", "Moment", "Name", "NotJsonError", "Number", "RequestId", "Text",
    "Whole", "loads",
]  # fmt: skip
