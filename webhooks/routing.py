"""Where the senders' addresses are served: in front of Django."""

from webhooks.http.edge import Webhooks

__all__ = ["Webhooks"]
