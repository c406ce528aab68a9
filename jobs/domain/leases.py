"""The lease: the right to speak for a job, as the worker carries it."""

import re
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from jobs.errors import LeaseLost

_WIRE = re.compile(r"([1-9][0-9]{0,17})-([0-9a-f]{32})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Claim number and secret. The number only ever grows, so an old lease can never fit again."""

    claim_no: int
    secret: UUID

    def __str__(self) -> str:
        return f"{self.claim_no}-{self.secret.hex}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The lease that `str()` wrote. Raises LeaseLost for any other text: what cannot be a lease holds nothing."""
        match = _WIRE.fullmatch(text)
        if match is None:
            raise LeaseLost
        return cls(claim_no=int(match[1]), secret=UUID(match[2]))
