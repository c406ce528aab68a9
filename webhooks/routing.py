"""Where the adapters' addresses are served: in front of Django."""

from webhooks.http.ingress import Webhooks

__all__ = ["Webhooks"]
