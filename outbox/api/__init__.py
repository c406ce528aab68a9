"""The HTTP API of the outbox, version 1: endpoints, messages, replays. The rights are those of the pages."""

from ninja import Router

from outbox.api import endpoints, messages

router = Router()
router.add_router("/endpoints", endpoints.router)
router.add_router("", messages.router)

__all__ = ["router"]
