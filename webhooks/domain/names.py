"""The eight sources, by name; and names that hold within one sender alone."""

import hashlib
from enum import StrEnum
from typing import Final

LONGEST: Final = 255  # characters of an id, here and in the tables


class Source(StrEnum):
    CLERK = "clerk"
    GITHUB = "github"
    JIRA = "jira"
    CONFLUENCE = "confluence"
    STRIPE = "stripe"
    SANDBOX_HOOKS = "sandbox_hooks"
    SANDBOX_COMPLETION = "sandbox_completion"
    SANDBOX_TELEMETRY = "sandbox_telemetry"

    @property
    def label(self) -> str:
        return "GitHub" if self is Source.GITHUB else self.replace("_", " ").capitalize()


def has_unsigned_id(source: Source) -> bool:
    """Whether the delivery id lies outside of what the sender signs, so that the body's digest is a second key."""
    return source in {Source.GITHUB, Source.JIRA, Source.CONFLUENCE}


def within(sender: str, name: str) -> str:
    """A name that only this sender vouches for, told apart from the same name of another; at most 255 characters."""
    together = f"{sender}/{name}"
    if len(together) <= LONGEST:
        return together
    return f"{sender[:100]}/sha256:{hashlib.sha256(together.encode()).hexdigest()}"
