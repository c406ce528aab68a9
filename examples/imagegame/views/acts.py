"""What the forms do. Each view is one operation; `views.acting` turns its outcome into a response."""

from functools import partial

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts import operations as accounts
from core import people
from examples.imagegame import operations
from examples.imagegame.errors import GameUnknown, ImageGameError, NotAMember
from examples.imagegame.models import Game
from examples.imagegame.views.common import act, number


@login_required
@require_POST
def open_game(request: HttpRequest) -> HttpResponse:
    """Open a game and go there."""
    theme = request.POST.get("theme", "")
    return act(request, lambda: _page(_opened(request, theme)), back=reverse("imagegame:lobby"))


@login_required
@require_POST
def join(request: HttpRequest) -> HttpResponse:
    """Join the game with this code and go there."""
    code = request.POST.get("code", "").strip().upper()[:20]

    def joined() -> str:
        try:
            return _page(operations.join(code, by=people.person(request)))
        except GameUnknown as refusal:  # somebody mistyped it: no page is missing
            raise ImageGameError(refusal.message) from refusal

    return act(request, joined, back=reverse("imagegame:lobby"))


@login_required
@require_POST
def leave(request: HttpRequest, code: str) -> HttpResponse:
    """Play no more in a game that has not begun."""

    def leave_game() -> str:
        operations.leave(code, by=people.person(request))
        return reverse("imagegame:lobby")

    return act(request, leave_game, back=_at(code))


@login_required
@require_POST
def begin(request: HttpRequest, code: str) -> HttpResponse:
    """Let everybody paint."""
    return act(request, partial(operations.begin, code, by=people.person(request)), back=_at(code))


@login_required
@require_POST
def go_on(request: HttpRequest, code: str) -> HttpResponse:
    """Wait for nobody any longer."""
    step = number(request, "step")
    return act(request, partial(operations.go_on, code, step=step, by=people.person(request)), back=_at(code))


@login_required
@require_POST
def again(request: HttpRequest, code: str) -> HttpResponse:
    """Open the game after this one, or join it, and go there."""

    def following() -> str:
        game = operations.again(code, by=people.person(request))
        return _page(operations.join(game.code, by=people.person(request)))

    return act(request, following, back=_at(code))


@login_required
@require_POST
def play(request: HttpRequest, code: str) -> HttpResponse:
    """Put a picture on the table."""
    submission = number(request, "submission")
    return act(request, partial(operations.play, code, submission, by=people.person(request)), back=_at(code))


@login_required
@require_POST
def name(request: HttpRequest, code: str) -> HttpResponse:
    """Give the picture on the table a title."""
    text, picture = request.POST.get("title", ""), number(request, "number")
    naming = partial(operations.name, code, text, number=picture, by=people.person(request))
    return act(request, naming, back=_at(code))


@login_required
@require_POST
def guess(request: HttpRequest, code: str) -> HttpResponse:
    """Take a title for the true one."""
    title = number(request, "title")
    return act(request, partial(operations.guess, code, title, by=people.person(request)), back=_at(code))


@login_required
@require_POST
def paint(request: HttpRequest) -> HttpResponse:
    """Have a prompt painted, instead of one that still waits if the form says so."""
    prompt, instead_of, user = (request.POST.get("prompt", ""), number(request, "instead_of"), people.person(request))

    def submit() -> None:
        if instead_of:
            operations.change(instead_of, prompt, by=user)
        else:
            operations.start(prompt, by=user)

    return act(request, submit, back=_back(request), kept=prompt[:200])


@login_required
@require_POST
def withdraw(request: HttpRequest, submission_id: int) -> HttpResponse:
    """Take a picture in the making back."""
    taking_back = partial(operations.withdraw, submission_id, by=people.person(request))
    return act(request, taking_back, back=_back(request))


def _opened(request: HttpRequest, theme: str) -> Game:
    user = people.person(request)
    return operations.open_game(theme, by=user, group=_group(request))


def _group(request: HttpRequest) -> Group | None:
    """The group that the form names, of those the person is in. Raises NotAMember."""
    group_id = number(request, "group")
    if not group_id:
        return None
    group = next((group for group in accounts.groups_of(people.person(request)) if group.pk == group_id), None)
    if group is None:
        raise NotAMember
    return group


def _back(request: HttpRequest) -> str:
    """The game that the form was on, else the gallery."""
    code = request.POST.get("game", "")
    return _at(code) if code.isalnum() and len(code) <= 10 else reverse("imagegame:gallery")


def _page(game: Game) -> str:
    return _at(game.code)


def _at(code: str) -> str:
    return reverse("imagegame:game", args=[code])
