"""The HTTP API of jobs, version 1. Paths and fields are those of DESIGN section 6."""

from ninja import Router

from jobs.api import clients, fleet, scaling, streams, uploads, workers

router = Router()
router.add_router("/worker", workers.router)
router.add_router("", clients.router)
router.add_router("", streams.router)
router.add_router("", uploads.router)
router.add_router("", scaling.router)
router.add_router("", fleet.router)

__all__ = ["router"]
