"""The lobby, a game's page, the gallery."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from accounts import operations as accounts
from core import people
from examples.imagegame import operations
from examples.imagegame.domain import prompts
from examples.imagegame.errors import GameUnknown
from examples.imagegame.models import CODE_LENGTH, THEME_LIMIT
from examples.imagegame.queries import games, pictures
from jobs import http as jobs_http, operations as jobs
from jobs.errors import NotFound

THEMES = ("Animals with odd jobs", "A postcard from the future", "Weather with feelings", "Food that fights back")


@login_required
@require_safe
@never_cache
def lobby(request: HttpRequest) -> HttpResponse:
    """Where games are opened, found and joined."""
    context = {
        "me": request.user.pk,
        "groups": accounts.groups_of(people.person(request)),
        "themes": THEMES,
        "theme_limit": THEME_LIMIT,
        "code_length": CODE_LENGTH,
    }
    return render(request, "imagegame/lobby.html", context)


@login_required
@require_safe
@never_cache
def game(request: HttpRequest, code: str) -> HttpResponse:
    """A game: for its players the table, for who may join it the door."""
    user = people.person(request)
    try:
        game = operations.find(code, by=user)
    except GameUnknown as refusal:
        raise Http404(refusal.message) from refusal
    if not games.is_player(game.pk, user):
        context = {"game": game, "players": games.players(game.pk)}
        return render(request, "imagegame/join.html", context)
    return render(request, "imagegame/game.html", {"game": game, **_studio(request)})


@login_required
@require_safe
@never_cache
def gallery(request: HttpRequest) -> HttpResponse:
    """The pictures of the person who looks, and the easel to have more painted."""
    return render(request, "imagegame/gallery.html", _studio(request))


def _studio(request: HttpRequest) -> dict[str, object]:
    return {
        "me": request.user.pk,
        "submission": pictures.at_hand(people.person(request)),
        "prompt": request.GET.get("prompt", "")[: prompts.LONGEST * 2],
        "prompt_limit": prompts.LONGEST,
    }


@login_required
@require_safe
def picture(request: HttpRequest, submission_id: int) -> HttpResponseBase:
    """A finished picture: for its owner, and for the players of a game once it is on the table."""
    submission = pictures.visible(people.person(request), submission_id)
    if submission is None:
        raise Http404("There is no such picture.")
    try:
        stored = jobs.result_file(submission.job_id, name=submission.file, attempt=submission.attempt or 0)
        return jobs_http.sent(request, stored)
    except NotFound as refusal:
        raise Http404(refusal.message) from refusal
