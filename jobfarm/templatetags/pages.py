"""What `templates/base.html` asks: where one can go from here."""

from dataclasses import dataclass

from django import template
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

register = template.Library()

# The ways in the bar, in their order: the name of the address, the word for people, and the right it takes.
WAYS = (
    ("overview", "Overview", None),
    ("jobs:list", "Jobs", None),
    ("jobs:workers", "Workers", None),
    ("jobs:queues", "Queues", None),
    ("ratelimits:list", "Limits", "ratelimits.view_bucket"),
    ("jobs:submit", "Submit", None),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A link of the navigation; `current` when the page that is shown lies under it."""

    label: str
    url: str
    current: bool


@register.simple_tag(takes_context=True)
def ways(context: template.Context) -> list[Way]:
    """The links of the navigation that this site has and this person may follow; the one nearest to the page at
    hand is marked as current.

    Works without a request too: the page for errors in the server is rendered without one.
    """
    request: HttpRequest | None = context.get("request")
    links = [(label, url) for name, label, right in WAYS if _may(request, right) and (url := _address(name))]
    here = _nearest([url for _, url in links], request.path if request else "")
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
