"""Pictures: submitted, changed before their painting begins, taken back; how they follow the jobs that paint them."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import PurePath
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError

from accounts import operations as accounts
from core.refusal import CancelVerdict
from examples.imagegame import limits
from examples.imagegame.domain import prompts, stages
from examples.imagegame.domain.painting import KIND, State
from examples.imagegame.errors import StillPainting, SubmissionUnknown, TooLateToChange
from examples.imagegame.models import Submission
from examples.imagegame.queries import pictures
from jobs import operations as jobs
from jobs.domain.payloads import PREVIEW
from jobs.domain.states import ENDED, Status
from jobs.errors import NotFound
from live import operations as live
from postgres import clock, transactions
from ratelimits import operations as ratelimits
from scheduling.operations import mutation

ATTEMPTS: Final = 2  # a painter that broke is worth another try, as long as there is time
AT_ONCE: Final = 200  # submissions that are mended in one transaction
_LONGEST_REASON = 300


@transactions.retried
def start(prompt: str, *, by: User) -> Submission:
    """Have a prompt painted: the submission and its job, in one transaction.

    The job has PICTURE_S seconds (30) until somebody takes it, as many more for each picture ahead of it (of up to
    seven others: a full game with one painter), and PICTURE_S until it is finished; what comes later is refused by its
    lease. Raises PromptRefused, StillPainting while another is in the making, and RateLimited:
    guests, whom nobody knows, get fewer.
    """
    text = _checked(prompt)
    return _submitted(text, by=by)


@transactions.retried
def change(submission_id: int, prompt: str, *, by: User) -> Submission:
    """Have another prompt painted instead of one that still waits: cancelled and submitted, both or neither.

    Raises TooLateToChange once its painting began (it goes on), SubmissionUnknown, and what `start` raises (the first
    one then goes on waiting).
    """
    text = _checked(prompt)
    if _cancel(submission_id, by=by) in {CancelVerdict.WHILE_RUNNING, CancelVerdict.TOO_LATE}:
        raise TooLateToChange  # which takes the cancel back too: what runs goes on
    return _submitted(text, by=by)


def withdraw(submission_id: int, *, by: User) -> None:
    """Take a picture in the making back. Raises SubmissionUnknown, TooLateToChange for one that had ended."""
    if _cancel(submission_id, by=by) is CancelVerdict.TOO_LATE:
        raise TooLateToChange


def prepared(claimed: Sequence[jobs.Prepared]) -> Mapping[int, Any]:
    """Look once more at the prompts of submissions that a worker is about to paint: the list may have grown since.

    The hook of the kind: jobs that are none of ours go out as they are.
    """
    answers: dict[int, Any] = {}
    for submission in pictures.painted_by([job.job_id for job in claimed]):
        if word := prompts.flagged(submission.prompt, blocked=settings.OF_APPS["JOBFARM_GAME_BLOCKED"]):
            why = prompts.why_flagged(word)
            _end(submission, State.FAILED, reason=why)
            answers[submission.job_id] = jobs.Discard(why=why)
    return answers


def follow(moves: Sequence[jobs.Move]) -> None:
    """Let submissions end as their jobs do, in the same transaction. The hook of the kind."""
    ends = {move.job_id: move for move in moves if move.to in ENDED}
    for submission in pictures.painted_by(ends):
        _follow(submission, ends[submission.job_id])


@mutation
def mend() -> int:
    """Resync submissions that should have ended long ago with their jobs; how many there were.

    A hook that fails does not keep a job from moving (docs/adr/0026), and without this its owner would have a picture
    in the making for ever.
    """
    late = pictures.overdue(longer_than_s=2 * settings.OF_APPS["JOBFARM_GAME_PICTURE_S"], limit=AT_ONCE)
    resynced = set(jobs.resync([submission.job_id for submission in late]))
    for submission in late:
        if submission.job_id not in resynced:
            _end(submission, State.FAILED, reason="The job that painted it is gone.")
    return len(late)


def _checked(prompt: str) -> str:
    return prompts.checked(prompt, blocked=settings.OF_APPS["JOBFARM_GAME_BLOCKED"])


def _submitted(prompt: str, *, by: User) -> Submission:
    if pictures.in_the_making(by) is not None:
        raise StillPainting
    limit = limits.PAINT_AS_GUEST if accounts.is_guest(by) else limits.PAINT
    ratelimits.limit(limit, key=accounts.limit_key(by), throws=True)
    seconds: float = settings.OF_APPS["JOBFARM_GAME_PICTURE_S"]
    job = jobs.submit(
        KIND,
        {"prompt": prompt},
        owner=by,
        max_attempts=ATTEMPTS,
        timeout_s=seconds,
        expires_at=clock.now() + timedelta(seconds=seconds * (1 + _ahead())),
    )
    try:
        submission = pictures.add(owner=by, prompt=prompt, job_id=job.pk)
    except IntegrityError as error:  # another request of the same person was a moment earlier
        raise StillPainting from error
    live.touch(f"imagegame:player:{submission.owner_id}")
    return submission


def _ahead() -> int:
    """How many pictures a new one may have to wait for, of a full game."""
    return pictures.count_in_the_making(limit=stages.MOST_PLAYERS - 1)


def _cancel(submission_id: int, *, by: User) -> CancelVerdict:
    submission = pictures.of_owner(by, submission_id)
    if submission is None:
        raise SubmissionUnknown
    try:
        return jobs.cancel(submission.job_id, by=by).verdict
    except NotFound as error:  # the farm has forgotten the job by now
        raise SubmissionUnknown from error


def _follow(submission: Submission, move: jobs.Move) -> None:
    match move.to:
        case Status.SUCCESS:
            _save(submission, move)
        case Status.CANCELED:
            _end(submission, State.CANCELED)
        case Status.TIMED_OUT:
            _end(submission, State.FAILED, reason=_timed_out(move))
        case _:
            error_lines = move.error.strip().splitlines()
            _end(
                submission,
                State.FAILED,
                reason=f"The painter gave up: {error_lines[-1] if error_lines else 'no reason given'}",
            )


def _save(submission: Submission, move: jobs.Move) -> None:
    name = _picture(move)
    if name is None:
        _end(submission, State.FAILED, reason="The painter handed in no picture.")
    else:
        _end(submission, State.SAVED, file=name, attempt=move.attempt)


def _picture(move: jobs.Move) -> str | None:
    """The picture that this attempt handed in: the one its result names, or else the first there is."""
    files = jobs.pictures(move.job_id, attempt=move.attempt)
    named = move.result.get("file") if isinstance(move.result, dict) else None
    finished = [name for name in files if not PurePath(name).name.startswith(PREVIEW)]
    return named if named in files else next(iter(finished), None)


def _timed_out(move: jobs.Move) -> str:
    if move.attempt == 0:
        return "Timed out: no painter was free in time."
    return f"Timed out: it was not finished within {settings.OF_APPS['JOBFARM_GAME_PICTURE_S']:g} s."


def _end(submission: Submission, state: State, *, reason: str = "", **columns: Any) -> None:
    ended = pictures.end(submission.job_id, state=state, reason=reason[:_LONGEST_REASON], **columns)
    if ended:
        _touch(submission)


def _touch(submission: Submission) -> None:
    """A picture is finished, or there will be none."""
    mine = (f"imagegame:submission:{submission.pk}", f"imagegame:player:{submission.owner_id}")
    live.touch(*mine, "imagegame:health")
