"""The HTTP API of jobs, version 1 (docs/api.md)."""

from ninja import Router

from jobs.api import clients, fleet, reading, together, workers  # noqa: F401  # two add to the routes of clients

router = Router()
router.add_router("/worker", workers.router)
router.add_router("", clients.router)
router.add_router("", fleet.router)

__all__ = ["router"]
