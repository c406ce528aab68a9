"""Who may see the pages of the inbox, and who may change something."""

from functools import partial

from django.http import HttpRequest

from core import pages
from webhooks import live_queries


def may_act(request: HttpRequest) -> bool:
    return request.user.has_perm(live_queries.OPERATE)


def with_jobs(request: HttpRequest) -> bool:
    return request.POST.get("with_jobs") == "yes"


viewers = partial(pages.for_holders, live_queries.VIEW)
operators = partial(pages.for_holders, live_queries.OPERATE)
