"""Who may see the pages of the inbox, and who may change something."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache

from webhooks import live_queries
from webhooks.domain.names import Source
from webhooks.errors import UnknownSource
from webhooks.sources import configs

OPERATE: Final = "webhooks.operate_delivery"
View = Callable[..., HttpResponse]


def may_act(request: HttpRequest) -> bool:
    return request.user.has_perm(OPERATE)


def with_jobs(request: HttpRequest) -> bool:
    return request.POST.get("with_jobs") == "yes"


def source_named(name: str) -> Source:
    """The source in an address; 404 without one."""
    try:
        return configs.find(name)
    except UnknownSource as refusal:
        raise Http404(refusal.message) from refusal


def _for(permission: str) -> Callable[[View], View]:
    """Whoever may not, finds nothing here; whoever is nobody yet is asked to log in. Bodies hold what is private: no
    cache keeps them."""

    def decorate(view: View) -> View:
        @wraps(view)
        def allowed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not request.user.has_perm(permission):
                raise Http404("There is nothing at this address.")
            return view(request, *args, **kwargs)

        return never_cache(login_required(allowed))

    return decorate


viewers_only = _for(live_queries.VIEW)
operators_only = _for(OPERATE)  # who may replay, send tests and change secrets
