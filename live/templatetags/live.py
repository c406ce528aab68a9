"""`{% load live %}`: `{% live "job" job_id=job.id %}` and `{% live_stream "job-output" job_id=job.id %}`."""

from typing import Any

from django import template
from django.contrib.auth.models import AnonymousUser
from django.template import Context
from django.utils.safestring import SafeString

from live import html
from live.registry import Viewer

register = template.Library()


@register.simple_tag(takes_context=True)
def live(
    context: Context, name: str, /, element: str = "", css: str = "", seen_as: str = "", **arguments: Any
) -> SafeString:
    """Show a live query: the part as it is now, kept up to date by `live.js`; nothing for who may not see it.

    `seen_as` is the audience, where the page has decided it already: the rights are then asked by the socket alone.
    Needs `request` in the context, for its user; a `live_ticket` there (a share link's token) goes along.
    """
    request = context["request"]
    user = getattr(request, "user", None) or AnonymousUser()
    viewer = Viewer(user=user, ticket=context.get("live_ticket"))
    return html.wrapper(name, arguments, viewer=viewer, audience=seen_as or None, element=element, css=css)


@register.simple_tag(takes_context=True)
def live_with(context: Context, name: str, filters: dict[str, Any], /, **arguments: Any) -> SafeString:
    """`live` with the arguments of a dict besides its own: `{% live_with "jobs" shown whose=viewer %}`."""
    return live(context, name, **filters, **arguments)


# A stream: what there is of it as text, and whatever follows.
register.simple_tag(live, takes_context=True, name="live_stream")
