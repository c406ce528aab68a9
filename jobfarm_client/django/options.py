"""What a site's TASKS says of a farm."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jobfarm_client.client import Client
from jobfarm_client.errors import BadOption
from jobfarm_client.models import Condition

KIND = "django-task"
SEND_S = 5.0  # a request of a web page waits for it
READ_FOR_S = 10.0
_NAMES = frozenset({"url", "token", "worker_key", "kind", "requires", "prefers"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmOptions:
    """The OPTIONS of one backend. Nothing is checked before it is needed: a build has no token.

    `requires` and `prefers`: conditions on the labels of the workers of its tasks, as `jobfarm_client.NewJob` has them.
    """

    url: str | None = None
    token: str | None = None
    worker_key: str | None = None
    kind: str = KIND
    requires: Mapping[str, Condition] | None = None
    prefers: Mapping[str, Condition] | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "FarmOptions":
        """What the settings say; raises BadOption for a name that there is not."""
        if unknown := set(options) - _NAMES:
            raise BadOption(f"TASKS has an option {min(unknown)!r}; there are {', '.join(sorted(_NAMES))}.")
        return cls(**options)

    def sender(self) -> Client:
        """Who submits: tries once, since what did not arrive is in the outbox. Raises BadOption."""
        return _client(self.url, self.token, SEND_S, 0.0, os.getpid())

    def reader(self) -> Client:
        """Who reads results. Raises BadOption."""
        return _client(self.url, self.token, SEND_S, READ_FOR_S, os.getpid())


@lru_cache(maxsize=16)
def _client(url: str | None, token: str | None, timeout_s: float, retry_for_s: float, _pid: int) -> Client:
    """One for all threads of a process, and never that of the process it was forked from."""
    return Client(url, token, timeout_s=timeout_s, retry_for_s=retry_for_s)
