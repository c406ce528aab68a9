"""`{% load words %}`: a code as people write it."""

from django import template

register = template.Library()


@register.filter
def words(code: object) -> str:
    """A code as people write it: "in_progress" is "in progress"."""
    return str(code).replace("_", " ")
