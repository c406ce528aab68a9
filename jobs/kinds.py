"""Kinds declared in code. Every app may have a `kinds.py`; `declare` in it makes the kind known.

A kind that calls back into its app is declared in the app's `hooks.py`, an edge like `crons.py`: hooks call operations.
"""

from collections.abc import Callable

from jobs.domain.hooks import Hooks, OnTransition, Prepare
from jobs.domain.kinds import Kind
from jobs.domain.outputs import LineReader
from jobs.errors import InvalidValue
from ratelimits import limits
from ratelimits.domain import Config, possible
from ratelimits.errors import RateLimitsError

# They come along for workers that know them; an app may declare each once more, with defaults of its own.
IMAGE, CHAT = Kind(name="image", timeout_s=600), Kind(name="chat", timeout_s=600)
COMING_ALONG = {kind.name: kind for kind in (IMAGE, CHAT)}
DECLARED: dict[str, Kind] = {**COMING_ALONG}
HOOKS: dict[str, Hooks] = {}  # of those that have any
OUTPUT_TEXTS: dict[str, LineReader] = {}  # of those whose output is no text as it stands


def declare(
    kind: Kind,
    *,
    prepare: Prepare | None = None,
    on_transition: OnTransition | None = None,
    output_text: LineReader | None = None,
) -> Kind:
    """Make `kind` known to this process. The same name again must say the same, or ValueError.

    `prepare` is called inside the claim with the jobs of this kind that were just claimed, and answers with the
    payload for each id, or Discard for a job that nobody needs any more: it ends as canceled. `on_transition` is
    called inside every transaction that changes the status of jobs of this kind, so that the app's own rows change
    with the job. Both may only touch the database, in the transaction they are in; both are called with many jobs at
    once, and one by one where that failed; none can keep a job from moving (docs/adr/0026). They must be declared in
    every process. `output_text` is for jobs whose lines of output are for programs: what one line, without its end,
    adds to the text that the job's page shows.

    Raises InvalidValue for a limit that is not declared, or that could never grant what one job takes.
    """
    check_limit(kind)
    hooks = Hooks(prepare=prepare, on_transition=on_transition)
    if DECLARED.get(kind.name, kind) not in (kind, COMING_ALONG.get(kind.name)):
        raise ValueError(f"kind {kind.name!r} is declared twice with different defaults")
    DECLARED[kind.name] = kind
    if hooks and HOOKS.setdefault(kind.name, hooks) != hooks:
        raise ValueError(f"kind {kind.name!r} is declared twice with different hooks")
    if output_text is not None:
        OUTPUT_TEXTS[kind.name] = output_text
    return kind


def declared() -> frozenset[str]:
    """The names of the kinds that code declares. Others are made by people."""
    return frozenset(DECLARED)


def check_limit(kind: Kind, *, find: Callable[[str], Config] = limits.find) -> None:
    """Raise InvalidValue unless the kind's limit, if it names one, is known and could grant what a job takes.

    `find` is where it is looked up: a kind of code names a limit of code, since this is asked while modules load.
    """
    if kind.limit is None:
        return
    try:
        possible(find(kind.limit), count=kind.limit_count, reserve=True)
    except RateLimitsError as refusal:
        raise InvalidValue(field="limit", why=refusal.message.rstrip(".")) from refusal
