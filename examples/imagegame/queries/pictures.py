"""Pictures in the making and made. Fences are in the WHERE clauses; callers count the rows."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import F, Q
from django.db.models.functions import Now

from examples.imagegame.domain import health, stages
from examples.imagegame.domain.painting import State
from examples.imagegame.domain.stages import Stage
from examples.imagegame.models import Submission

ENDED = [State.SAVED, State.FAILED]
SHOWN = 60  # in a gallery


def add(*, owner: User, prompt: str, job_id: int) -> Submission:
    """A new one, painted by this job. IntegrityError while the owner has another in the making."""
    return Submission.objects.create(owner=owner, prompt=prompt, job_id=job_id)


def find(submission_id: int) -> Submission | None:
    """The submission as it is now."""
    return Submission.objects.filter(pk=submission_id).first()


def of_owner(owner: User, submission_id: int) -> Submission | None:
    """One of this person's own."""
    return Submission.objects.filter(pk=submission_id, owner=owner).first()


def in_the_making(owner: User) -> Submission | None:
    """What is being painted for this person."""
    return Submission.objects.filter(owner=owner, state=State.PAINTING).first()


def count_in_the_making(*, limit: int) -> int:
    """How many are being painted or wait for that, of everybody; no more than `limit` are counted."""
    return Submission.objects.filter(state=State.PAINTING)[:limit].count()


def at_hand(owner: User) -> Submission | None:
    """This person's newest, unless it was played already or taken back."""
    newest = Submission.objects.filter(owner=owner).select_related("round").order_by("-pk").first()
    is_at_hand = newest is not None and newest.state != State.CANCELED and not hasattr(newest, "round")
    return newest if is_at_hand else None


def playable(owner: User, submission_id: int) -> Submission | None:
    """A finished picture of this person's own that was not played yet."""
    mine = Submission.objects.filter(pk=submission_id, owner=owner, state=State.SAVED, round__isnull=True)
    return mine.first()


def painted_by(job_ids: Collection[int]) -> list[Submission]:
    """Those in the making that these jobs paint."""
    return list(Submission.objects.filter(job_id__in=job_ids, state=State.PAINTING))


def overdue(*, longer_than_s: float, limit: int) -> list[Submission]:
    """Those in the making that were submitted longer ago, the oldest first."""
    old = Submission.objects.filter(state=State.PAINTING, created_at__lt=Now() - timedelta(seconds=longer_than_s))
    return list(old.order_by("pk")[:limit])


def end(job_id: int, *, state: State, **columns: Any) -> bool:
    """Write how a submission ended, unless it had ended; whether that was done."""
    painting = Submission.objects.filter(job_id=job_id, state=State.PAINTING)
    return bool(painting.update(state=state, ended_at=Now(), **columns))


def last_ended() -> list[health.Painted]:
    """The last few that came to an end, the newest first; those that were taken back do not count."""
    rows = Submission.objects.filter(state__in=ENDED).order_by("-ended_at")[: health.SAMPLED]
    return [
        health.Painted(succeeded=row.state == State.SAVED, took_s=(row.ended_at - row.created_at).total_seconds())
        for row in rows
        if row.ended_at is not None
    ]


def gallery(owner_id: int) -> list[Submission]:
    """What was painted for this person, the newest first."""
    mine = Submission.objects.filter(owner_id=owner_id).exclude(state=State.CANCELED)
    return list(mine.select_related("round__game")[:SHOWN])


def visible(user: User, submission_id: int) -> Submission | None:
    """A finished picture that this person may look at: their own, or one that lies or lay on the table of a game
    they play in."""
    of_a_game = Q(round__game__players__user=user) & (
        Q(round__game__stage=Stage.OVER)
        | Q(round__game__stage__in=stages.AT_THE_TABLE, round__number__lte=F("round__game__round"))
    )
    finished = Submission.objects.filter(pk=submission_id, state=State.SAVED)
    return finished.filter(Q(owner=user) | of_a_game).first()
