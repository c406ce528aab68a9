"""What sort of work a job is, and the defaults that come with it.

What of the texts of a kind's jobs is not kept: whatever matches its patterns, which are RE2's, one a line. The time
that RE2 takes grows with the text and the size of the pattern, never faster. And the queues of models: a worker that
announces a model serves its queue, and no other worker's key has to name it.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, get_args

import re2

from core import templates
from core.backoff import LONGEST_S, Backoff
from jobs.domain import labels
from jobs.errors import InvalidValue

REDACTED: Final = "[redacted]"
MOST_REDACTED_BYTES: Final = 1_000_000  # of an output; a longer one is deleted
_PATTERN_CHARACTERS: Final = 2_000  # of all patterns of a kind
_PROGRAM: Final = 3_000  # instructions: what a search costs a character at the worst
_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
LimitKey = Literal["", "owner"]
Overflow = Literal["wait", "cancel_oldest_waiting", "cancel_running", "refuse"]
OVERFLOWS: Final[tuple[Overflow, ...]] = get_args(Overflow)
_FIELD: Final = re.compile(r"\{([\w.-]+)\}")
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
MODELS: Final = "openai"  # whose key names this queue serves the queue of every model that it announces
PREFIX: Final = f"{MODELS}."
_NO_NAME: Final = re.compile(r"[^a-z0-9_.-]+")
_HASHED: Final = re.compile(r".*-[0-9a-f]{12}")
_SLUG_CHARACTERS: Final = 60


@lru_cache(maxsize=100)
def expression(patterns: str) -> Any:
    """One expression of these patterns. Raises ValueError for what is none of RE2, too long, or matches no text."""
    if len(patterns) > _PATTERN_CHARACTERS:
        raise ValueError(f"the patterns of redact have at most {_PATTERN_CHARACTERS:,} characters together")
    lines = [line for line in patterns.splitlines() if line.strip()]
    for line in lines:
        _compiled(line)
    whole = _compiled("|".join(f"(?:{line})" for line in lines))
    if whole.programsize > _PROGRAM:
        raise ValueError("the patterns of redact repeat too much")
    if whole.search(""):
        raise ValueError("a pattern of redact matches where there is no text")
    return whole


def check_patterns(patterns: str) -> None:
    """Raise ValueError as `expression`; no patterns are fine."""
    if patterns:
        expression(patterns)


def redacted(value: Any, patterns: str) -> Any:
    """This text or JSON with REDACTED in place of what matches, in names too."""
    if isinstance(value, str):
        return expression(patterns).sub(REDACTED, value)
    if isinstance(value, dict):
        return {redacted(name, patterns): redacted(each, patterns) for name, each in value.items()}
    return [redacted(each, patterns) for each in value] if isinstance(value, list) else value


def _compiled(pattern: str) -> Any:
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise ValueError(f"redact: {pattern!r} is no pattern of RE2: {error.args[0].decode()}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The defaults of one sort of work. Times in seconds; `queue` is the kind's own name unless given.

    `timeout_s` bounds one run, `expires_s` bounds the wait; None means no bound. `retry_when_lost`: a job whose worker
    died or could not be heard goes to another while attempts remain; False is for work that must not run twice, or that
    nobody waits for any more: it ends as timed_out. `retry_on_timeout`: the same for a run longer than `timeout_s`.

    `limit` names a rate limit of which each job takes `limit_count` tokens when it is submitted, ahead of time if it
    must: the job may then start when they have come in. `limit_key` says whose tokens: "" is one state for all jobs
    of all kinds that name the limit, "owner" one for each owner (jobs without an owner share one).

    At most `concurrency` of its jobs run at a time; with a `concurrency_key` so many of each key, which is written over
    the payload: "{account}", "{options.model}-{region}" ("" for what is not there). `on_overflow` says what becomes of
    a job whose key has as many living jobs as may run: it waits ("wait"), or its owner's oldest that waits is canceled
    for it, so that one waits ("cancel_oldest_waiting"), or their oldest of all ("cancel_running"), or it is refused
    ("refuse").

    Without `keep_content` payload, result, output, files and errors of its jobs are deleted minutes after their end.
    `redact` are patterns of RE2, one a line: what matches them in those texts is redacted then, and files are deleted.

    `requires` are conditions on the labels of their workers (`jobs.domain.labels`).
    """

    name: str
    queue: str = ""
    max_attempts: int = 3
    backoff: Backoff = field(default_factory=Backoff)
    timeout_s: float | None = None
    expires_s: float | None = None
    retry_when_lost: bool = True
    retry_on_timeout: bool = False
    priority: int = 0
    limit: str | None = None
    limit_count: float = 1.0
    limit_key: LimitKey = ""
    concurrency: int | None = None
    concurrency_key: str = ""
    on_overflow: Overflow = "wait"
    keep_content: bool = True
    redact: str = ""
    requires: Mapping[str, Any] = field(default_factory=dict, hash=False)

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
        self._check_backoff()
        self._check_limit()
        self._check_concurrency()
        check_patterns(self.redact)
        try:
            object.__setattr__(self, "requires", labels.conditions(self.requires, field="requires"))
        except InvalidValue as refusal:
            raise ValueError(refusal.message) from refusal

    def _check_backoff(self) -> None:
        waits = (self.backoff.first_s, self.backoff.cap_s)
        if self.backoff.base > 1000 or max(waits) > LONGEST_S:
            raise ValueError(f"a kind's backoff has a base to 1000, waits to five years, got {self.backoff}")

    def _check_limit(self) -> None:
        if not (math.isfinite(self.limit_count) and self.limit_count > 0):
            raise ValueError(f"limit_count is a positive number, got {self.limit_count}")
        if self.limit_key not in {"", "owner"}:
            raise ValueError(f'limit_key is "" or "owner", got {self.limit_key!r}')

    def _check_concurrency(self) -> None:
        if self.concurrency is not None and not 1 <= self.concurrency <= 10_000:
            raise ValueError(f"concurrency is from 1 to 10,000, got {self.concurrency}")
        if self.on_overflow not in OVERFLOWS:
            raise ValueError(f"on_overflow is one of {', '.join(OVERFLOWS)}, got {self.on_overflow!r}")
        if self.on_overflow != "wait" and self.concurrency is None:
            raise ValueError("on_overflow is for kinds with a concurrency")
        template = self.concurrency_key
        if len(template) > 200 or {*"{}"} & {*_FIELD.sub("", template)}:
            raise ValueError(
                f"a concurrency_key has at most 200 characters, and fields as {{a.b}}, got {template[:80]!r}"
            )

    def concurrency_key_of(self, payload: Any) -> str | None:
        """The concurrency key of a job with this payload; None where the kind has neither a key nor a bound."""
        if not self.concurrency_key:
            return None if self.concurrency is None else ""
        return _FIELD.sub(lambda named: _value(payload, named[1]), self.concurrency_key)

    def key_for(self, owner_id: int | None) -> str | None:
        """Whose tokens of the kind's limit a job of this owner takes, as the key of the limit; None: everybody's."""
        if self.limit_key == "":
            return None
        return "owner:none" if owner_id is None else f"owner:{owner_id}"


def _value(payload: Any, path: str) -> str:
    """What stands at this path of names, as text; "" where nothing does, or more than a value."""
    for name in path.split("."):
        payload = payload.get(name) if isinstance(payload, Mapping) else None
    return "" if isinstance(payload, Mapping | list) else templates.as_text(payload)


def queue_of_model(model: str) -> str:
    """The queue of the jobs for this model, the same in every process.

    What cannot be a queue's name as it is becomes one by a part of its SHA-256, so that no two models share a queue.
    """
    name = PREFIX + model
    if NAME.fullmatch(name) and not _HASHED.fullmatch(model):
        return name
    slug = _NO_NAME.sub("-", model.lower())[:_SLUG_CHARACTERS]
    return f"{PREFIX}{slug}-{hashlib.sha256(model.encode(errors='surrogatepass')).hexdigest()[:12]}"


def is_of_model(queue: str, *, kind_queue: str) -> bool:
    """Whether a job of a kind with this queue may wait in that one by the choice of its model alone."""
    return kind_queue == MODELS and queue.startswith(PREFIX)


def with_models(queues: Sequence[str], models: Iterable[str]) -> list[str]:
    """The home queues of a worker that announces these models now: those below `openai.` are replaced by theirs.

    Those of a key that does not name `openai` are left as they are: it serves the models whose queues it names.
    """
    if MODELS not in queues:
        return list(queues)
    own = [queue for queue in queues if not queue.startswith(PREFIX)]
    return [*own, *dict.fromkeys(map(queue_of_model, models))]
