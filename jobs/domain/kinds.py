"""What sort of work a job is, and the defaults that come with it."""

import re
from dataclasses import dataclass, field

from jobs.domain.retries import LONGEST_S, Backoff

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The defaults of one sort of work. Times in seconds; `queue` is the kind's own name unless given.

    `timeout_s` bounds one run, `expires_s` bounds the wait; None means no bound. `retry_on_timeout` says that an
    attempt whose lease or time ran out counts as a failure to retry instead of ending the job as timed_out.
    """

    name: str
    queue: str = ""
    max_attempts: int = 3
    backoff: Backoff = field(default_factory=Backoff)
    timeout_s: float | None = None
    expires_s: float | None = None
    retry_on_timeout: bool = False
    priority: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "queue", self.queue or self.name)
        for word in (self.name, self.queue):
            if not NAME.fullmatch(word):
                raise ValueError(f"a kind or queue is named by a-z 0-9 _ . - (at most 100), got {word!r}")
        if not 1 <= self.max_attempts <= 1000:
            raise ValueError(f"max_attempts is from 1 to 1000, got {self.max_attempts}")
        if not -100 <= self.priority <= 100:
            raise ValueError(f"priority is from -100 to 100, got {self.priority}")
        for seconds in (self.timeout_s, self.expires_s):
            if seconds is not None and not 0 < seconds < LONGEST_S:
                raise ValueError(f"timeout_s and expires_s are positive and under five years, got {seconds}")
