"""A log-in backend that counts the passwords it looks at."""

import threading
from typing import Any

from django.contrib.auth.backends import ModelBackend

_lock = threading.Lock()
reads: list[str] = []


class Counting(ModelBackend):
    """Django's own, counting."""

    def authenticate(self, request: Any, username: str | None = None, **given: Any) -> Any:  # type: ignore[override]
        """Look at a password, and count it."""
        with _lock:
            reads.append(str(username))
        return super().authenticate(request, username=username, **given)
