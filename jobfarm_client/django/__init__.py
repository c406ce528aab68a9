"""A farm behind the tasks of any Django site.

INSTALLED_APPS = [..., "jobfarm_client.django"]
TASKS = {"default": {
    "BACKEND": "jobfarm_client.django.FarmBackend",
    "OPTIONS": {"url": "https://farm.example", "token": "jft_...", "worker_key": "jfw_..."},
}}
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobfarm_client.django.backend import FarmBackend

__all__ = ["FarmBackend"]


def __getattr__(name: str) -> Any:
    """FarmBackend, once somebody wants it: Django imports this package before its models may be."""
    if name != "FarmBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jobfarm_client.django import backend  # noqa: PLC0415

    return backend.FarmBackend
