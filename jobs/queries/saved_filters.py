"""The filters of lists that people keep under names."""

from django.contrib.auth.models import User

from jobs.models import SavedFilter

MOST = 50  # of a person


def of_person(owner: User) -> list[SavedFilter]:
    return list(SavedFilter.objects.filter(owner=owner).order_by("name")[:MOST])


def is_full(owner: User, *, name: str) -> bool:
    """Whether this person keeps as many as one may, none of them by this name."""
    kept = SavedFilter.objects.filter(owner=owner)
    return not kept.filter(name=name).exists() and kept.count() >= MOST


def save(owner: User, *, name: str, query: dict[str, str]) -> None:
    SavedFilter.objects.update_or_create(owner=owner, name=name, defaults={"query": query})


def forget(owner: User, pk: int) -> bool:
    return SavedFilter.objects.filter(owner=owner, pk=pk).delete()[0] > 0
