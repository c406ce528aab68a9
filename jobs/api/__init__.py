"""The HTTP API of jobs, version 1 (docs/api.md)."""

from ninja import Router

from jobs.api import bulks, clients, fleet, flows, scaling, streams, uploads, workers

router = Router()
router.add_router("/worker", workers.router)
for each in (clients, bulks, flows, streams, uploads, scaling, fleet):
    router.add_router("", each.router)

__all__ = ["router"]
