"""`manage.py farm_outbox`: send what waits for the farm."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from jobfarm_client.django import outbox
from jobfarm_client.django.backend import FarmBackend
from jobfarm_client.django.interface import task_backends
from jobfarm_client.django.models import FarmTask


class Command(BaseCommand):
    """Sends tasks that were enqueued while the farm was away."""

    help = "Send the tasks that were enqueued while the farm was away. farm_worker does so by itself."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--now", action="store_true", help="also those whose next try lies ahead")
        parser.add_argument("--again", action="store_true", help="also those that the farm refused")
        parser.add_argument(
            "--prune", type=int, metavar="DAYS", help="delete those sent so long ago, with their results"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Send and count; a CommandError when some could not be sent."""
        unsent = FarmTask.objects.filter(job__isnull=True)
        if options["now"]:
            unsent.filter(due_at__isnull=False).update(due_at=timezone.now())
        if options["again"]:
            unsent.filter(due_at__isnull=True).update(due_at=timezone.now())
        if options["prune"] is not None:
            before = timezone.now() - timedelta(days=options["prune"])
            deleted, _by_model = FarmTask.objects.filter(job__isnull=False, created_at__lt=before).delete()
            self.stdout.write(f"{deleted} deleted")
        count = sum(_send(alias) for alias in task_backends)
        waiting, refused = (unsent.filter(due_at__isnull=False).count(), unsent.filter(due_at__isnull=True).count())
        self.stdout.write(f"{count} sent, {waiting} waiting, {refused} refused")
        if waiting or refused:
            last = unsent.exclude(error="").order_by("created_at").last()
            raise CommandError(f"Not everything was sent. {last.error if last else ''}".strip())


def _send(alias: str) -> int:
    backend = task_backends[alias]
    return outbox.send_due(alias, backend.farm_options) if isinstance(backend, FarmBackend) else 0
