"""Live queries of the game: what its pages show, and when it is stale.

`me` is the id of the viewer. It is an argument because what a player may do differs from player to player;
the forms that do it carry tokens and so stand outside, and buttons in here belong to them by their `form` attribute.
"""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.utils.safestring import SafeString

from accounts import operations as accounts
from examples.imagegame.domain import health, painting
from examples.imagegame.domain.painting import State
from examples.imagegame.models import Submission
from examples.imagegame.queries import games, pictures, tables
from jobs import operations as jobs
from jobs.domain.states import Status
from jobs.errors import NotFound
from live import html
from live.registry import Viewer, live_query

MEMBER = "member"  # who is logged in, guests included, and may see this


@live_query(
    "imagegame-health",
    topics=lambda: ["imagegame:health"],
    audiences=(MEMBER,),
    template="imagegame/live/health.html",
    at_most_every_s=0.25,
)
def painters_health() -> Mapping[str, Any]:
    """How well painting goes, by the last few pictures of everybody."""
    return {"health": health.of(pictures.last_ended())}


@painters_health.may_see
def _(viewer: Viewer) -> str | None:
    return MEMBER if viewer.user.is_authenticated else None


@live_query(
    "imagegame-games",
    topics=lambda group: [f"imagegame:games:{group}"],
    audiences=(MEMBER,),
    template="imagegame/live/games.html",
    at_most_every_s=0.25,
)
def open_games(*, group: int) -> Mapping[str, Any]:
    """The games of a group, or (0) those that everybody may join."""
    return {"games": games.listed(group), "group": group}


@open_games.may_see
def _(viewer: Viewer, *, group: int) -> str | None:
    if not isinstance(viewer.user, User):
        return None
    mine = group == 0 or any(one.pk == group for one in accounts.groups_of(viewer.user))
    return MEMBER if mine else None


@live_query(
    "imagegame-mine",
    topics=lambda me: [f"imagegame:player:{me}"],
    audiences=(MEMBER,),
    template="imagegame/live/mine.html",
    at_most_every_s=0.25,
)
def my_games(*, me: int) -> Mapping[str, Any]:
    """The games somebody plays in."""
    return {"games": games.of_player(me)}


@live_query(
    "imagegame-gallery",
    topics=lambda me: [f"imagegame:player:{me}"],
    audiences=(MEMBER,),
    template="imagegame/live/gallery.html",
    at_most_every_s=0.25,
)
def gallery(*, me: int) -> Mapping[str, Any]:
    """The pictures that were painted for somebody."""
    return {"submissions": pictures.gallery(me)}


@live_query(
    "imagegame-submission",
    topics=lambda submission_id, job_id, **_: [f"job:{job_id}", f"imagegame:submission:{submission_id}"],
    audiences=(MEMBER,),
    template="imagegame/live/submission.html",
    at_most_every_s=0.1,
)
def submission(*, submission_id: int, job_id: int, in_game: int = 0) -> Mapping[str, Any] | None:
    """A picture in the making: its steps, and what came of it. `in_game` 1: it can be played from here."""
    submission = pictures.find(submission_id)
    if submission is None or submission.job_id != job_id:
        return None
    return {"submission": submission, "in_game": in_game, **_progress(submission)}


@submission.may_see
def _(viewer: Viewer, *, submission_id: int, job_id: int, in_game: int) -> str | None:
    submission = pictures.find(submission_id)
    mine = submission is not None and submission.owner_id == viewer.user.pk and submission.job_id == job_id
    return MEMBER if mine and in_game in {0, 1} else None


@live_query(
    "imagegame-table",
    topics=lambda game_id, me: [f"imagegame:game:{game_id}", f"imagegame:player:{me}"],
    rights_topics=lambda game_id, **_: [f"imagegame:rights:{game_id}"],
    audiences=(MEMBER,),
    template="imagegame/live/table.html",
    at_most_every_s=0.05,
)
def table(*, game_id: int, me: int) -> Mapping[str, Any] | None:
    """A game as one of its players sees it: who plays, what lies on the table, what this player may do."""
    board = tables.table(game_id, me=me)
    return None if board is None else {"table": board, "game": board.game, "stage": board.game.stage}


@table.may_see
def _(viewer: Viewer, *, game_id: int, me: int) -> str | None:
    mine = viewer.user.pk == me and games.plays(game_id, me)
    return MEMBER if mine else None


def _own(viewer: Viewer, *, me: int) -> str | None:
    return MEMBER if viewer.user.is_authenticated and viewer.user.pk == me else None


for listing in (my_games, gallery):
    listing.may_see(_own)


def _why(job_id: int) -> SafeString:
    """The part of the page that says why nobody paints it yet."""
    return html.wrapper("job-why", {"job_id": job_id, "queue": painting.KIND}, audience=MEMBER)


def _progress(submission: Submission) -> Mapping[str, Any]:
    """The steps of a submission that has not ended; nothing for one that has."""
    if submission.state != State.PAINTING:
        return {}
    try:
        job = jobs.snapshot(submission.job_id)
    except NotFound:
        return {}
    is_claimed = job.status == Status.IN_PROGRESS
    now = painting.step(is_claimed=is_claimed, progress=job.progress)
    steps = [(step, painting.has_passed(step, now=now), step is now) for step in painting.Step]
    share = job.progress if is_claimed else None
    return {
        "steps": steps,
        "is_claimed": is_claimed,
        "progress": share,
        "detail": job.detail if is_claimed else "",
        "why": "" if is_claimed else _why(submission.job_id),
    }
