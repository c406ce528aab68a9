"""`manage.py create_kind NAME`: a kind of job for those who only write workers."""

from argparse import ArgumentParser, BooleanOptionalAction
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from core.backoff import Backoff
from jobs import operations
from jobs.domain import labels
from jobs.domain.kinds import OVERFLOWS, Kind
from jobs.errors import JobsError


class Command(BaseCommand):
    """Make a kind, or change the one of that name."""

    help = "Create or change a kind of job, and its queue."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--queue", default="", help="where its jobs wait (its own name)")
        parser.add_argument("--max-attempts", type=int, default=3)
        parser.add_argument(
            "--backoff", type=float, default=1.0, metavar="SECONDS", help="wait after the first failure"
        )
        parser.add_argument("--timeout", type=float, metavar="SECONDS", help="longest run")
        parser.add_argument("--expires", type=float, metavar="SECONDS", help="longest wait")
        parser.add_argument(
            "--retry-when-lost", action=BooleanOptionalAction, default=True,
            help="give the job of a lost worker to another one (yes)",
        )  # fmt: skip
        parser.add_argument(
            "--retry-on-timeout", action="store_true", help="try again when a run took longer than its timeout"
        )
        parser.add_argument("--priority", type=int, default=0, help="-100 to 100; higher goes first")
        parser.add_argument("--limit", metavar="NAME", help="the rate limit that each of its jobs takes from")
        parser.add_argument("--limit-count", type=float, default=1.0, metavar="N", help="how many tokens (1)")
        parser.add_argument(
            "--require", action="append", default=[], metavar="CONDITION",
            help="on the labels of its workers, such as vram>=16; may be repeated",
        )  # fmt: skip
        parser.add_argument(
            "--limit-key", choices=["", "owner"], default="", help="owner: each owner has tokens of their own"
        )
        parser.add_argument("--concurrency", type=int, metavar="N", help="how many run at a time, of each key")
        parser.add_argument(
            "--concurrency-key", default="", metavar="KEY", help='of fields of the payload: "{account}"'
        )
        parser.add_argument(
            "--on-overflow", choices=OVERFLOWS, default="wait", help="what more than that come to (wait)"
        )
        parser.add_argument(
            "--keep-content", action=BooleanOptionalAction, default=True,
            help="keep what its jobs were given and gave longer than minutes after their end (yes)",
        )  # fmt: skip

        parser.add_argument(
            "--redact", action="append", default=[], metavar="PATTERN",
            help="of RE2: what matches it is redacted minutes after the end; may be repeated",
        )  # fmt: skip

    def handle(self, *, name: str, **options: Any) -> None:
        try:
            kind = _kind(name, options)
            operations.create_kind(kind)
        except (JobsError, ValueError) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"Kind {kind.name}: its jobs wait in the queue {kind.queue}.")


def _kind(name: str, options: dict[str, Any]) -> Kind:
    names = (
        *("queue", "max_attempts", "retry_when_lost", "retry_on_timeout", "priority"),
        *("limit", "limit_count", "limit_key", "concurrency", "concurrency_key", "on_overflow", "keep_content"),
    )
    return Kind(
        name=name, backoff=Backoff(first_s=options["backoff"]), timeout_s=options["timeout"],
        expires_s=options["expires"], requires=labels.read_pairs(options["require"], field="require"),
        redact="\n".join(options["redact"]), **{option: options[option] for option in names},
    )  # fmt: skip
