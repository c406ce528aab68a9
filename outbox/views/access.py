"""Who sees the pages of the outbox."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache

from accounts.http import members_only
from outbox.errors import NotAllowed, NotFound

View = Callable[..., HttpResponse]


def for_members(view: View) -> View:
    """For people with an account; what they may not see is not there. Bodies hold what is private: no cache keeps
    them."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except (NotFound, NotAllowed) as refusal:
            raise Http404(refusal.message) from refusal

    return never_cache(members_only(guarded))
