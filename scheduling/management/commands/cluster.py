"""`manage.py cluster`: the processes that run scheduled functions."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from observing import numbers
from postgres import embedded
from scheduling import operations
from scheduling.cluster.process_group import keep_connections
from scheduling.cluster.supervisor import Supervisor
from scheduling.domain.calls import Kind
from scheduling.operations import clusters

METRICS_HELP = "show what this cluster counts to Prometheus, which shows JOBFARM_METRICS_TOKEN as bearer"


class Command(BaseCommand):
    """One cluster, kept alive until SIGINT or SIGTERM; any number may run, on any number of machines."""

    help = (
        "Run scheduled functions until SIGINT or SIGTERM: mutations or actions. Run at least one of each, anywhere. "
        "SIGTERM lets mutations finish and gives running actions SCHEDULING_GRACE_S seconds (30); a second one, or "
        "SIGQUIT, ends them at once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        kinds = parser.add_mutually_exclusive_group(required=True)
        kinds.add_argument("--mutations", dest="kind", action="store_const", const=Kind.MUTATION)
        kinds.add_argument("--actions", dest="kind", action="store_const", const=Kind.ACTION)
        parser.add_argument("--workers", type=int, default=settings.SCHEDULING["WORKERS"])
        parser.add_argument("--queue", action="append", dest="queues", help="only this queue; may be repeated")
        parser.add_argument("--once", action="store_true", help="run what is due now, in this process, and end")
        parser.add_argument("--metrics", type=numbers.address, metavar="[HOST:]PORT", help=METRICS_HELP)

    def handle(
        self, *, kind: Kind, workers: int, queues: list[str] | None, once: bool, metrics: tuple[str, int] | None,
        **_: Any,
    ) -> None:  # fmt: skip
        if workers < 1:
            raise CommandError("--workers must be at least 1.")
        keep_connections(kind)
        try:
            if once:
                operations.fire_due()
                self.stdout.write(f"{clusters.run_due(kinds=[kind], queues=queues)} run")
            else:
                operations.sync_crons()
                Supervisor(kind=kind, queues=queues, workers=workers, metrics=metrics).run()
        finally:
            embedded.release()
