"""The context processor of the navigation: `templates/base.html` loads no tag library of the site for it."""

from functools import partial
from typing import Any

from django.http import HttpRequest
from django.template import Context
from django.utils.functional import SimpleLazyObject

from jobfarm.templatetags import pages


def navigation(request: HttpRequest) -> dict[str, Any]:
    """`navigation`: the links of the bar and of the operators' menu, read when a page shows them."""
    return {"navigation": SimpleLazyObject(partial(pages.ways, Context({"request": request})))}
