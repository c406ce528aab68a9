"""The navigation of all pages, as a context processor: `templates/base.html` loads no tag library for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link of the navigation; `current` when the page that is shown lies under it."""

    label: str
    url: str
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Navigation:
    """The links of the bar, and those of the operators' menu, which is marked while one of its own is."""

    bar: list[Link]
    menu: list[Link]
    search: str  # where one can search, on a page that has nothing to search

    @property
    def is_in_menu(self) -> bool:
        return any(link.current for link in self.menu)


def navigation(request: HttpRequest) -> dict[str, object]:
    return {"navigation": SimpleLazyObject(partial(links, request))}


def links(request: HttpRequest) -> Navigation:
    """The links of the bar and of the operators' menu; the one nearest to the page at hand is marked as current."""
    bar, menu = _links(request, BAR), _links(request, OPERATIONS)
    here = _nearest([url for _, url in bar + menu], request.path)
    # A browser puts the focus on the field that an address names.
    search = f"{_address('jobs:list')}#filter-text"
    return Navigation(bar=_marked(bar, here), menu=_marked(menu, here), search=search)


def _links(request: HttpRequest, those: Sequence[tuple[str, str, str | None]]) -> list[tuple[str, str]]:
    is_guest = getattr(request, "session", {}).get("is_guest")
    those = [link for link in those if not (is_guest and link[0] in FOR_MEMBERS)]
    return [(label, url) for name, label, right in those if _may(request, right) and (url := _address(name))]


def _marked(entries: list[tuple[str, str]], here: str | None) -> list[Link]:
    return [Link(label=label, url=url, current=url == here) for label, url in entries]


def _may(request: HttpRequest, right: str | None) -> bool:
    if right is None:
        return True
    user = getattr(request, "user", None)
    return user is not None and user.has_perm(right)


def _address(name: str) -> str:
    try:
        return reverse(name)
    except NoReverseMatch:  # this site leaves that app out, or is being put together in a test
        return ""


def _nearest(urls: list[str], path: str) -> str | None:
    above = [url for url in urls if path == url or (url != "/" and path.startswith(url))]
    return max(above, key=len, default=None)
