"""Templates of rules: `{{ path }}` stands for what a delivery has there (`paths.ROOTS`)."""

from collections.abc import Mapping
from typing import Any

from core import templates
from core.templates import BadTemplate, as_text
from webhooks.domain import paths
from webhooks.errors import BadRule

__all__ = ["as_text", "check", "render"]


def check(template: Any) -> None:
    try:
        templates.check(template, paths.reason)
    except BadTemplate as refusal:
        raise BadRule(field="payload", reason=refusal.reason) from None


def render(template: Any, values: Mapping[str, Any], *, limit_bytes: int) -> Any:
    """What a template makes of a delivery; raises as `core.templates.render`."""
    return templates.render(template, values, reason=paths.reason, limit_bytes=limit_bytes)
