"""The navigation of all pages, as a context processor: `templates/base.html` loads no tag library for it."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from examples import config as examples

# The links of the bar, in their order: the name of the address, the word for people, and the right it takes.
BAR = (
    ("overview", "Overview", None),
    ("jobs:list", "Jobs", None),
    ("jobs:workers", "Workers", None),
    ("jobs:queues", "Queues", None),
    *((*example.navigation, None) for example in examples.installed() if example.navigation),
    ("accounts:groups", "Groups", None),
    ("jobs:submit", "Submit", None),
)
FOR_MEMBERS = ("jobs:submit",)  # guests are refused there
# Those in the menu beside it, for whoever looks after the farm: the bar has no room for all.
OPERATIONS = (
    ("alerts:list", "Alerts", "alerts.view_rule"),
    ("metering:usage", "Usage", "metering.view_budget"),
    ("jobs:timeline", "Timeline", "jobs.view_job"),
    ("webhooks:inbox", "Webhook inbox", "webhooks.view_delivery"),
    ("webhooks:activity", "Activity", "webhooks.view_delivery"),
    ("outbox:endpoints", "Outbox", "outbox.view_endpoint"),
    ("openai_api:batches", "Batches", "openai_api.view_batch"),
    ("scheduling:functions", "Functions", "scheduling.view_scheduledfunction"),
    ("scheduling:crons", "Crons", "scheduling.view_scheduledfunction"),
    ("ratelimits:list", "Limits", "ratelimits.view_bucket"),
)


def navigation(request: HttpRequest) -> dict[str, object]:
    return {"navigation": SimpleLazyObject(partial(links, request))}


def links(request: HttpRequest) -> dict[str, Any]:
    """The links of the bar and of the operators' menu; the one nearest to the page at hand is marked as current."""
    bar, menu = _links(request, BAR), _links(request, OPERATIONS)
    here = _nearest([link["url"] for link in bar + menu], request.path)
    for link in bar + menu:
        link["current"] = link["url"] == here
    # Where one can search, on a page that has nothing to search: a browser puts the focus on the field that it names.
    search = f"{reverse('jobs:list')}#filter-text"
    return {"bar": bar, "menu": menu, "is_in_menu": any(link["current"] for link in menu), "search": search}


def _links(request: HttpRequest, those: Sequence[tuple[str, str, str | None]]) -> list[dict[str, Any]]:
    hidden = FOR_MEMBERS if getattr(request, "session", {}).get("is_guest") else ()
    user = getattr(request, "user", None)
    return [
        {"label": label, "url": reverse(name)}
        for name, label, right in those
        if name not in hidden and (right is None or (user is not None and user.has_perm(right)))
    ]


def _nearest(urls: list[str], path: str) -> str | None:
    above = [url for url in urls if path == url or (url != "/" and path.startswith(url))]
    return max(above, key=len, default=None)
