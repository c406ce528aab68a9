"""`manage.py workers list|drain|undrain`: workers from the command line, with the rights of the system itself."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs import operations
from jobs.models import Worker
from jobs.queries import fleet, pages


class Command(BaseCommand):
    help = "List workers; have them finish what they hold and take no more (drain); end that (undrain)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser("list", help="the workers, most recently seen first")
        for verb, meaning in (("drain", "give them nothing more"), ("undrain", "let them claim again")):
            verbs.add_parser(verb, help=meaning).add_argument("worker", nargs="+", help="name or number")

    def handle(self, *, verb: str, **options: Any) -> None:
        if verb == "list":
            self._list()
        else:
            self._set_drained([_named(name) for name in options["worker"]], drained=verb == "drain")

    def _list(self) -> None:
        for row in fleet.worker_rows(viewer=pages.EVERYBODY, with_revoked=True):
            host = row.facts.host if row.facts else "-"
            status = f"{row.presence.replace('_', ' ')}{', drained' if row.is_drained else ''}"
            running = f"{row.held} running"
            self.stdout.write(
                f"#{row.worker.pk:<6} {row.worker.name:<24} {status:<16} {running:<11} {host:<20} "
                f"{', '.join(row.worker.queues)}{_labels(row)}{_stuck(row)}"
            )

    def _set_drained(self, workers: list[Worker], *, drained: bool) -> None:
        for worker in workers:
            change = operations.drain if drained else operations.undrain
            was = "" if change(worker) else "already "
            row = fleet.worker_row(worker.pk)
            holds = f", holds {row.held}" if row and drained else ""
            self.stdout.write(f"{worker.name} #{worker.pk}: {was}{'drained' if drained else 'not drained'}{holds}")


def _labels(row: fleet.WorkerRow) -> str:
    written = ", ".join(f"{key}={value}" for key, value in row.labels.items())
    return f" ({written})" if written else ""


def _stuck(row: fleet.WorkerRow) -> str:
    slots = (f"job {slot.job} {slot.text} since {slot.since:%H:%M} UTC" for slot in row.stuck)
    return f"; {len(row.stuck)} slot{'s' * (len(row.stuck) > 1)} stuck: {', '.join(slots)}" if row.stuck else ""


def _named(text: str) -> Worker:
    """The worker of this number, or the only one of this name that is not revoked."""
    number = text.removeprefix("#")
    by_number = Worker.objects.filter(pk=number) if number.isdecimal() and len(number) < 19 else ()
    workers = list(by_number) or list(Worker.objects.filter(name=text, revoked_at=None)[:2])
    if not workers:
        raise CommandError(f"There is no worker {text!r}.")
    if len(workers) > 1:
        raise CommandError(f"There are several workers {text!r}: name one by its number, which the list shows.")
    return workers[0]
