"""The HTTP API of jobs, version 1 (docs/api.md)."""

from ninja import Router

from jobs.api import bulks, clients, fleet, flows, pauses, scaling, streams, uploads, workers

router = Router()
router.add_router("/worker", workers.router)
router.add_router("", clients.router)
router.add_router("", bulks.router)
router.add_router("", flows.router)
router.add_router("", streams.router)
router.add_router("", uploads.router)
router.add_router("", scaling.router)
router.add_router("", fleet.router)
router.add_router("", pauses.router)

__all__ = ["router"]
