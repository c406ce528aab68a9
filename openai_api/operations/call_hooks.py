"""What apps of the site decide about calls: whether and how they reach a model, and what of an answer is handed out
(docs/adr/0139)."""

import copy
import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django.contrib.auth.models import User
from django.db import transaction

from core import large_json
from jobs import operations as jobs
from observing import numbers
from openai_api import domain
from openai_api.domain import Call
from openai_api.errors import CallRefused, HookFailed
from openai_api.models import HookDecision
from postgres import connections

if TYPE_CHECKING:
    from jobs.models import Job

T = TypeVar("T")
R = TypeVar("R")
AT_ONCE: Final = 8  # calls of one hook in a process: one that hangs has as many threads, and no other hook's
RETRY_AFTER_S: Final = 5
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedCall:
    """A call that a hook decides about: its path below /v1/, the model, the whole body, and who makes it with which API
    token."""

    path: str
    model: str
    body: Mapping[str, Any]
    user: User | None
    token_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hook:
    """A function of an app that decides about the calls at these paths."""

    function: Callable[..., Any]
    timeout_s: float
    is_required: bool
    paths: Collection[str]
    _places: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(AT_ONCE))

    @property
    def name(self) -> str:
        return f"{self.function.__module__.removesuffix('.hooks')}.{self.function.__name__}"

    def ask(self, *about: Any, check: Callable[[Any], Any]) -> Any:
        """What it puts in the place of the last of `about`, checked; None where it changes nothing, or failed and is
        not required. Raises CallRefused, HookFailed."""
        outcome, changed = "failed", None
        try:
            if (answer := self._answer(*about)) is not None:
                changed = check(answer)
            outcome = "passed" if changed is None else "changed"
        except CallRefused:
            outcome = "refused"
            raise
        except Exception as error:
            log.warning("the hook %s failed for a call%s", self.name, "" if self.is_required else ", which goes on",
                        exc_info=error)  # fmt: skip
            if self.is_required:
                raise HookFailed(hook=self.name, retry_after=RETRY_AFTER_S) from error
        finally:
            numbers.CALL_HOOKS.labels(self.name, outcome).inc()
        return changed

    def _answer(self, *about: Any) -> Any:
        """Its answer, from a thread that is left to itself when its time is over. Raises TimeoutError."""
        future: Future[Any] = Future()
        until = time.monotonic() + self.timeout_s
        with connections.released():  # who waits for a hook holds no connection
            pass
        if not self._places.acquire(timeout=self.timeout_s):
            raise TimeoutError(f"{AT_ONCE} calls of {self.name} have not ended")

        def run() -> None:
            try:
                with connections.released():
                    future.set_result(self.function(*about))
            except Exception as error:
                future.set_exception(error)
            except BaseException as error:  # SystemExit would end the process of whoever waits
                future.set_exception(RuntimeError(f"it raised {type(error).__name__}"))
            finally:
                self._places.release()

        threading.Thread(target=run, name=f"hook {self.name}", daemon=True).start()
        return future.result(until - time.monotonic())


BEFORE: Final[list[Hook]] = []
AFTER: Final[list[Hook]] = []
Registered = Callable[[Callable[..., Any]], Callable[..., Any]]


def before_call(**options: Any) -> Registered:
    """Have a function of an app's `hooks.py` decide about each call before a job is made of it.

    It gets a HookedCall and returns the body to send instead, or None; or raises CallRefused with a sentence for the
    caller. One that fails, or takes longer than `timeout_s` (2), lets the call be refused, but with `is_required=False`
    it goes on. `paths` (all): those of the calls, below /v1/."""
    return _registering(BEFORE, **options)


def after_call(**options: Any) -> Registered:
    """The same for each answer before it is handed out for the first time, in JSON or as text: the function gets the
    HookedCall and the answer, and returns another one, or None. Streams at its paths are held until then."""
    return _registering(AFTER, **options)


def is_hooked(path: str) -> bool:
    """Whether a hook decides about calls at this path."""
    return any(path in hook.paths for hook in (*BEFORE, *AFTER))


def is_held(path: str) -> bool:
    """Whether answers at this path are handed out only when they are whole, and were decided about."""
    return any(path in hook.paths for hook in AFTER)


def before(call: Call, *, user: User | None, token_id: int | None) -> tuple[Call, list[str]]:
    """The call as the hooks let it pass, and what they did. Raises CallRefused, HookFailed, and InvalidJson."""
    notes: list[str] = []
    if hooks := [hook for hook in BEFORE if call.path in hook.paths]:
        jobs.check_payload(call.body)  # what is nested too deep cannot be copied
    for hook in hooks:
        seen = HookedCall(path=call.path, model=call.model, body=_whole(call.body), user=user, token_id=token_id)
        if (changed := hook.ask(seen, check=partial(_with_body, call))) is not None:
            call, notes = changed, [*notes, f"{hook.name} changed the call"]
    return call, notes


def at_once(function: Callable[[T], R], values: Sequence[T]) -> list[R]:
    """The function of each of these, some at a time, since hooks wait for others. What one raises ends it."""
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        return list(pool.map(connections.released()(function), values))
    finally:
        pool.shutdown(cancel_futures=True)


def note(job_id: int, notes: list[str]) -> None:
    """Keep for people what hooks did to the call of this job before it was made."""
    if notes:
        HookDecision.objects.update_or_create(job_id=job_id, defaults={"notes": notes})


def forget(job_ids: Collection[int]) -> None:
    """Delete what hooks made of the answers of these jobs, and their notes, which may quote them."""
    HookDecision.objects.filter(pk__in=job_ids).update(answer=None, notes=[])


def decisions(job_ids: Collection[int]) -> dict[int, HookDecision]:
    return HookDecision.objects.in_bulk(job_ids)


def decide(job: "Job", answer: Any) -> None:
    """Have the hooks decide about the answer of this job; what is stored of it is decided once. Raises HookFailed, and
    ContentNotKept where the answer was deleted meanwhile."""
    payload = jobs.whole_payload(job)
    path = payload["path"]
    model = domain.answering(payload, queue=job.queue)
    call = HookedCall(path=path, model=model, body=payload["body"], user=job.owner, token_id=job.token_id)
    notes, status, changed = [], None, None
    HookDecision.objects.get_or_create(job_id=job.pk)  # so that who deletes the content waits for its lock
    try:
        for hook in (each for each in AFTER if path in each.paths):
            if (new := hook.ask(call, copy.deepcopy(answer), check=_checked)) is not None:
                status, answer, changed = 200, new, new
                notes.append(f"{hook.name} changed the answer")
    except CallRefused as refusal:
        status, notes = 400, [*notes, f"{hook.name} refused the answer: {refusal.message}"]
        changed = domain.error(refusal.message, status=400, code=refusal.code, job_id=job.pk)
    with transaction.atomic():
        row = HookDecision.objects.select_for_update().get(job_id=job.pk)
        if (now := jobs.find(job.pk)) is not None:
            jobs.check_content(now)
        if not row.is_decided:
            row.is_decided, row.status, row.answer, row.notes = True, status, changed, [*row.notes, *notes]
            row.save()


def _registering(
    hooks: list[Hook], *, timeout_s: float = 2.0, is_required: bool = True, paths: Collection[str] = domain.PATHS
) -> Registered:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        hooks.append(Hook(function=function, timeout_s=timeout_s, is_required=is_required, paths=frozenset(paths)))
        return function

    return register


def _whole(body: Mapping[str, Any]) -> Any:
    """The body with what was cut out of it, all of it in memory."""
    parts = [(part.path, json.load(part.open())) for part in getattr(body, "parts", ())]
    return large_json.put_together(copy.deepcopy(dict(body)), parts)


def _with_body(call: Call, body: Any) -> Call:
    """This call with another body, which is cut anew. Raises ValueError where it is of another sort."""
    new = domain.call(call.path, large_json.cut(body, domain.BODY), file=call.file)
    if (new.is_stream, new.is_background) != (call.is_stream, call.is_background):
        raise ValueError("whether a call streams, or is made in the background, is its caller's to say")
    return replace(new, headers=call.headers, is_kept=call.is_kept)


def _checked(answer: Any) -> Any:
    jobs.check_payload(answer)
    return answer
