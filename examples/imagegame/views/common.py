"""What every form of the game does: one operation, then back to a page that says how it went."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect

from examples.imagegame.errors import GameUnknown, ImageGameError, SubmissionUnknown
from jobs.errors import TooManyWaiting
from ratelimits.errors import RateLimited

BIGGEST_ID = 2**63 - 1


def act(request: HttpRequest, operation: Callable[[], Any], *, back: str, kept: str = "") -> HttpResponse:
    """Do it and go `back`; a refusal is shown there, and what the person wrote (`kept`) goes along.

    Where the operation returns a text, that is the page to go to instead. 404 for what is not there.
    """
    try:
        done = operation()
    except (GameUnknown, SubmissionUnknown) as refusal:
        raise Http404(refusal.message) from refusal
    except (ImageGameError, RateLimited, TooManyWaiting) as refusal:
        messages.error(request, refusal.message)
        return HttpResponseRedirect(f"{back}?{urlencode({'prompt': kept})}" if kept else back)
    return HttpResponseRedirect(done if isinstance(done, str) else back)


def number(request: HttpRequest, name: str) -> int:
    """A number of the form; 0, which names nothing, where it is none."""
    text = request.POST.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0
