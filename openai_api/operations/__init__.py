"""What can be done with calls: make one, look how it ended, give it up."""

import json
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files import File
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models.functions import Now

from core import large_json
from core.recent import Outdated
from core.refusal import Refusal, raised
from jobs import operations as jobs
from jobs.errors import NotFound
from openai_api import domain
from openai_api.errors import BrokenAnswer, InvalidCall, NotDeletable, UnknownCall, UnknownPrevious
from openai_api.kinds import CALL
from openai_api.models import CachedCall, LeftCall
from openai_api.operations import call_hooks, earlier, names

if TYPE_CHECKING:
    from jobs.models import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a call ended: the HTTP status and the body of its answer; `file` is the name of the file that holds the body
    instead, and `fence` whose file it is. One that is no JSON is a text or a sound of this `content_type`. Of one that
    `is_undecided`, hooks say first what is handed out."""

    status: int
    body: Any
    file: str | None = None
    fence: int = 0
    content_type: str = domain.JSON
    is_undecided: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A call that was made: its job, what it asked for, and how it ended; None while it has not."""

    job_id: int
    path: str
    is_stream: bool
    model: str
    ended: Ended | None = None
    may_move: bool = False


def models(user: User, *, token_id: int | None = None) -> Mapping[str, datetime]:
    """The models and aliases that this person may call with this token now, and since when. Of a model whose workers
    are away calls are taken for a while, too: they may be starting anew."""
    known = names.names(user, token_id=token_id)
    return {name: each.since for name, each in known.items() if each.workers}


def submit(
    call: domain.Call,
    *,
    user: User,
    file: "File[bytes] | None" = None,
    requires: Mapping[str, str] | None = None,
    prefers: Mapping[str, str] | None = None,
    token_id: int | None = None,
    may_wait: bool = False,
    keep_content: bool = True,
    versions: tuple[str, str] | None = None,
) -> Made:
    """Make a call: a job in its model's queue, with its input file if it has one, for a worker with these labels. A
    worker that has its beginning gets it first, else one that has the model loaded, unless labels say who. Raises
    UnknownModel where nobody offers the model, UnknownPrevious and InvalidCall for a response that cannot be continued,
    and as `jobs.operations.submit` and `upload`, of a token that was remembered (`versions`) as `store_recent`. Nothing
    is kept of a file whose call is refused."""
    target = names.find(call.model, user=user, token_id=token_id)
    call = names.answered_by(call, target)
    if call.previous is not None:
        call = replace(call, context=_conversation(call.previous, call.body["previous_response_id"], user=user))
    is_chosen = bool(requires or prefers)
    preference = earlier.Preference() if is_chosen else earlier.preference(call, target.workers, user=user)
    if not prefers and preference.worker is None and preference.is_for_loaded and target.is_loaded:
        prefers = jobs.preferring_loaded(call.model)
    options: dict[str, Any] = {
        "requires": requires, "prefers": prefers, "prefers_worker": preference.worker,
        "token_id": token_id, "may_wait": may_wait, "keep_content": keep_content,
    }  # fmt: skip
    if file is None or call.file is None:
        made = _submit(call, versions, owner=user, **options)
        preference.keep(made.job_id)
        return made
    kept = jobs.upload(call.file, file, owner=user)
    try:
        return _submit(call, versions, owner=user, files={call.file: kept.pk}, **options)
    except (Outdated, Refusal):
        jobs.delete_upload(kept.pk, by=user)
        raise


def find(job_id: int, *, path: str, user: User) -> Made:
    """A call of this person at this path of the API. Raises UnknownCall."""
    job = _own(job_id, path=path, user=user)
    is_stream, model = bool(job.payload["body"].get("stream")), domain.answering(job.payload, queue=job.queue)
    may_move = bool(job.payload.get("models"))
    return Made(job_id=job_id, path=path, is_stream=is_stream, model=model, ended=_ended(job), may_move=may_move)


def answering(job_id: int) -> str:
    """The model that answers this call. Raises UnknownCall where it is deleted."""
    job = jobs.find(job_id)
    if job is None:
        raise UnknownCall
    return domain.answering(job.payload, queue=job.queue)


def content(job_id: int, ended: Ended, *, path: str) -> Any:
    """The answer of a call at this path that has ended, as JSON has it, as text or bytes. Reads the file that holds it,
    if any. Raises BrokenAnswer for what is none, which answers no other call."""
    answer, is_json = ended.body, path not in domain.SOUNDED or ended.content_type == domain.JSON
    if ended.file is not None:
        with suppress(NotFound, ValueError, RecursionError):
            with default_storage.open(answer_file(job_id, ended).stored_as) as file:
                data = file.read()
            answer = json.loads(data) if is_json else data
    if answer is None or (is_json and not domain.is_answer(path, answer)):
        CachedCall.objects.filter(job_id=job_id).delete()
        raise BrokenAnswer(job=job_id)
    return answer


def answer_file(job_id: int, ended: Ended) -> Any:
    """The file that holds the answer, which has one. Raises NotFound."""
    return jobs.result_file(job_id, name=ended.file or "", attempt=ended.fence)


def give_up(job_id: int) -> None:
    """Nobody waits for this call any more: cancel it. One that has ended stays as it is, and one that is deleted is."""
    with suppress(NotFound):
        jobs.cancel(job_id, by=None)


def broken(job_id: int) -> Mapping[str, Any]:
    """The error for a stream whose attempt is over in the middle of its answer: whose fault that was."""
    last = jobs.last_attempts([job_id]).get(job_id)
    return domain.broken(job_id, why=last.error if last is not None and last.outcome == "failed" else None)


def response(job_id: int, *, user: User) -> Mapping[str, Any]:
    """A response of this person's as it is now: with its answer where it has one. Raises UnknownCall."""
    return _response(_own(job_id, path=domain.RESPONSES, user=user))


def cancel_response(job_id: int, *, user: User) -> Mapping[str, Any]:
    """Cancel a response; one that has ended stays as it is. Gives it as it is then. Raises UnknownCall."""
    _own(job_id, path=domain.RESPONSES, user=user)
    jobs.cancel(job_id, by=user)
    return response(job_id, user=user)


def refuse_deletion(job_id: int, *, user: User) -> None:
    """Raise NotDeletable for a response of this person's, UnknownCall for any other."""
    _own(job_id, path=domain.RESPONSES, user=user)
    days = settings.JOBFARM["RETENTION_DAYS"]
    raise NotDeletable(response=domain.response_id(job_id), job=job_id, days=days)


def input_items(job_id: int, *, user: User) -> list[dict[str, Any]]:
    """What the model got for a response: the conversation before it, and its own input. Raises UnknownCall."""
    job = _own(job_id, path=domain.RESPONSES, user=user)
    return [domain.input_item(item, job_id=job_id, number=number) for number, item in enumerate(_context(job))]


def _submit(call: domain.Call, versions: tuple[str, str] | None, **options: Any) -> Made:
    payload = call.payload
    if call.context:
        payload = large_json.gathered(payload | large_json.cut({"context": payload["context"]}, domain.CONTEXT))
    new: Any = {"kind": CALL.name, "payload": payload, "queue": jobs.queue_of_model(call.model), **options}
    with transaction.atomic() if call.later else nullcontext():
        [answer] = jobs.store([new]) if versions is None else [jobs.store_recent(new, by=None, versions=versions)]
        stored = raised(answer)
        if call.later:
            names.note([(stored.id, call)], since=stored.run_at)
    return Made(
        job_id=stored.id, path=call.path, is_stream=call.is_stream, model=call.model, may_move=bool(call.models)
    )


def _own(job_id: int, *, path: str, user: User) -> "Job":
    job = jobs.find(job_id)
    if job is None or job.kind != CALL.name or job.owner_id != user.pk:
        raise UnknownCall
    jobs.check_content(job)
    if not isinstance(job.payload, dict) or job.payload.get("path") != path:
        raise UnknownCall
    return job


def _conversation(job_id: int, response_id: str, *, user: User) -> list[Any]:
    """What was written until the end of this response: the context of one that follows it."""
    try:
        job = _own(job_id, path=domain.RESPONSES, user=user)
    except UnknownCall:
        param = "previous_response_id"
        raise UnknownPrevious(response=response_id, param=param) from None
    response = _response(job)
    if job.status != "success" or response.get("error"):
        how = f"is {job.status}"
        if job.status == "success":
            fault = response["error"]
            how = f"was refused: {fault.get('message') if isinstance(fault, dict) else fault}"
        why = f"job {job_id}, which makes {response_id}, has not ended with an answer: it {how}"
        raise InvalidCall(param="previous_response_id", why=why)
    return [*_context(job), *domain.items(response.get("output"))]


def _context(job: "Job") -> list[Any]:
    payload = jobs.whole_payload(job)
    return [*payload.get("context", ()), *domain.items(payload["body"].get("input"))]


def _response(job: "Job") -> Mapping[str, Any]:
    status, message = job.status, _error(job)
    try:
        ended = _ended(job)
        ended = ended and decided(job.pk, ended)
        if ended is not None and ended.status == 200:
            answer = content(job.pk, ended, path=domain.RESPONSES)
            return {**answer, "created_at": int(job.created_at.timestamp())}  # not when it was claimed
        if ended is not None and status == "success":
            status, message = "failed", ended.body["error"]["message"]
    except BrokenAnswer as refusal:
        status, message = "failed", refusal.message
    body = job.payload["body"]
    return domain.response(body, job_id=job.pk, status=status, created_at=job.created_at, message=message)


def _error(job: "Job") -> str:
    return "" if job.status == "success" else jobs.last_errors([job]).get(job.pk, "")


def decide(job_id: int) -> None:
    """Have hooks decide about the answer of this job, if it has one. Raises HookFailed."""
    with suppress(BrokenAnswer):
        if (job := jobs.find(job_id)) is not None and (ended := _ended(job)) is not None:
            decided(job_id, ended)


def decided(job_id: int, ended: Ended) -> Ended:
    """What is handed out: hooks decide, if they have not. Raises UnknownCall, HookFailed, BrokenAnswer."""
    if not ended.is_undecided:
        return ended
    if (job := jobs.find(job_id)) is None:
        raise UnknownCall
    answer = content(job_id, ended, path=job.payload["path"])
    call_hooks.decide(job, answer.decode(errors="replace") if isinstance(answer, bytes) else answer)
    return _ended(job) or ended


def _ended(job: "Job") -> Ended | None:
    ended, path = _as_it_came(job), job.payload["path"]
    is_sound = ended is not None and ended.content_type.partition(";")[0] not in {domain.JSON, *domain.TEXTS}
    if ended is None or ended.status != 200 or is_sound or not call_hooks.is_held(path):
        return ended
    row = call_hooks.decisions([job.pk]).get(job.pk)
    if row is None or not row.is_decided:
        return replace(ended, is_undecided=True)
    if row.status is None:
        return ended
    content_type = ended.content_type if row.status == 200 else domain.JSON
    return Ended(status=row.status, body=row.answer, content_type=content_type)


def _as_it_came(job: "Job") -> Ended | None:
    if job.status in {"pending", "in_progress"}:
        return None
    if job.status != "success":
        status, body = domain.failure(job_id=job.pk, status=job.status, message=_error(job))
        return Ended(status=status, body=body)
    return of_success(job.pk, job.fence, job.result)


def of_success(job_id: int, fence: int, result: Any) -> Ended:
    """How the job ended that succeeded with this result, in its claim with this number."""
    whole, result = result, result if isinstance(result, dict) else {}
    kind = domain.content_type(result["content_type"]) if "content_type" in result else domain.JSON
    if result.keys() <= domain.ANSWER_FIELDS and str(result.get("answer_file")) in domain.ANSWER_FILES:
        name = result["answer_file"]
        return Ended(status=200, body=None, file=name, fence=fence, content_type=kind)
    if result.keys() == {"answer_text", "content_type"}:
        return Ended(status=200, body=str(result["answer_text"]), content_type=kind)
    if any(large_json.placeholders(result)):
        with suppress(NotFound):
            jobs.result_file(job_id, name=jobs.RESULT, attempt=fence)
            return Ended(status=200, body=None, file=jobs.RESULT, fence=fence)
    return Ended(status=200, body=whole)


# The clients of OpenAI repeat a call that took them too long, which then takes the living job over instead of waiting
# behind it (docs/adr/0084).
LASTS: Final = timedelta(minutes=1)  # so long after its caller went away a job may be taken over


def leave(job_id: int, *, user_id: int, fingerprint: str) -> None:
    """The caller of this job went away, who may repeat the call. Those of servers that ended meanwhile are given up."""
    for old in LeftCall.objects.filter(left_at__lt=Now() - LASTS)[:100]:
        end_grace(old.job_id, is_kept=False)
    left = LeftCall(job_id=job_id, owner_id=user_id, fingerprint=fingerprint)
    LeftCall.objects.bulk_create([left], ignore_conflicts=True)


def take_over(fingerprint: str, *, path: str, user: User) -> Made | None:
    """The oldest job of the same call of this person whose caller went away lately: it is this caller's now, if none
    asked before. None where there is none, or where it was canceled."""
    rows = LeftCall.objects.filter(fingerprint=fingerprint, owner_id=user.pk, left_at__gt=Now() - LASTS)
    job_id = next((row.job_id for row in rows.order_by("job_id") if _take_back(row.job_id)), None)
    if job_id is None or jobs.statuses([job_id]).get(job_id) in {None, "canceled"}:
        return None
    return find(job_id, path=path, user=user)


def end_grace(job_id: int, *, is_kept: bool) -> None:
    """Nobody came back in time: give the job up, unless it is to be kept. One that was taken over stays."""
    if _take_back(job_id) and not is_kept:
        give_up(job_id)


def _take_back(job_id: int) -> bool:
    """Forget that its caller went away; whether that was still noted. Of several that try, one does."""
    return LeftCall.objects.filter(job_id=job_id).delete()[0] > 0
