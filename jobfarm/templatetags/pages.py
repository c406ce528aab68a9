"""What pages of all apps ask: where one can go from here, and the sign of a status."""

from collections.abc import Sequence
from dataclasses import dataclass

from django import template
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from examples import config as examples
from live.templatetags import signs

register = template.Library()
register.filter(signs.sign)  # for templates that load this library

# The ways in the bar, in their order: the name of the address, the word for people, and the right it takes.
WAYS = (
    ("overview", "Overview", None),
    ("jobs:list", "Jobs", None),
    ("jobs:workers", "Workers", None),
    ("jobs:queues", "Queues", None),
    *((*example.navigation, None) for example in examples.installed()),
    ("accounts:groups", "Groups", None),
    ("jobs:submit", "Submit", None),
)
# Those in the menu beside it, for whoever looks after the farm: the bar has no room for all.
OPERATIONS = (
    ("webhooks:inbox", "Webhook inbox", "webhooks.view_delivery"),
    ("webhooks:activity", "Activity", "webhooks.view_delivery"),
    ("scheduling:functions", "Functions", "scheduling.view_scheduledfunction"),
    ("scheduling:crons", "Crons", "scheduling.view_scheduledfunction"),
    ("ratelimits:list", "Limits", "ratelimits.view_bucket"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A link of the navigation; `current` when the page that is shown lies under it."""

    label: str
    url: str
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """The links of the bar, and those of the operators' menu, which is marked while one of its own is."""

    bar: list[Way]
    menu: list[Way]
    search: str  # where one can search, on a page that has nothing to search

    @property
    def is_in_menu(self) -> bool:
        """Whether the page at hand is one of the menu's."""
        return any(way.current for way in self.menu)


@register.simple_tag(takes_context=True)
def ways(context: template.Context) -> Ways:
    """The links of the navigation that this site has and this person may follow; the one nearest to the page at
    hand is marked as current.

    Works without a request too: the page for errors in the server is rendered without one.
    """
    request: HttpRequest | None = context.get("request")
    bar, menu = _links(request, WAYS), _links(request, OPERATIONS)
    here = _nearest([url for _, url in bar + menu], request.path if request else "")
    search = (
        f"{_address('jobs:list')}#filter-text"  # a browser puts the focus on the field that an address names
    )
    return Ways(bar=_marked(bar, here), menu=_marked(menu, here), search=search)


def _links(
    request: HttpRequest | None, those: Sequence[tuple[str, str, str | None]]
) -> list[tuple[str, str]]:
    return [(label, url) for name, label, right in those if _may(request, right) and (url := _address(name))]


def _marked(links: list[tuple[str, str]], here: str | None) -> list[Way]:
    return [Way(label=label, url=url, current=url == here) for label, url in links]


def _may(request: HttpRequest | None, right: str | None) -> bool:
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
