"""Tasks of the site."""

from importlib import import_module
from typing import Any

import django

task = import_module("django_tasks" if django.VERSION < (6,) else "django.tasks").task


class NoSuchAddress(Exception):
    """A letter came back."""


@task
def write(name: str, times: int = 1) -> list[str]:
    """The letter."""
    return [f"Dear {name}"] * times


@task
async def write_later(name: str) -> str:
    """Likewise, awaited."""
    return f"Later, {name}"


@task(takes_context=True)
def count(context: Any) -> Any:
    """Which attempt this is."""
    return context.attempt


@task
def fail(name: str) -> None:
    """No letter."""
    raise NoSuchAddress(f"nobody is called\n{name}")


def secret() -> str:
    """A function that is no task."""
    return "secret"
