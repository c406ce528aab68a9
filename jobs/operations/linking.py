"""What of other apps belongs to a job, for its pages: apps above this one say it, and this one names none of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser

Viewer = AbstractBaseUser | AnonymousUser


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A row of another app: how it belongs to the job ("Started by"), what it is, and its pages here and in the
    administration. `note` says more about it."""

    label: str
    text: str
    url: str
    admin_url: str
    note: str = ""


Provider = Callable[[int, Viewer], Iterable[Link]]
_providers: list[Provider] = []


def register_links(provider: Provider) -> Provider:
    """Show on the page of every job what `provider(job id, viewer)` returns: only what that viewer may see. For an
    app's `hooks.py`, also as a decorator."""
    _providers.append(provider)
    return provider


def links(job_id: int, *, viewer: Viewer) -> list[Link]:
    """What belongs to this job and this viewer may see, app by app."""
    return [link for provider in _providers for link in provider(job_id, viewer)]
