"""`manage.py create_kind NAME`: a kind of job for those who only write workers."""

from argparse import ArgumentParser, BooleanOptionalAction
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.db import models

from core.backoff import Backoff
from jobs import operations
from jobs.domain import labels
from jobs.errors import JobsError
from jobs.models import Kind

# Fields of a kind whose defaults and help the options of their names have, without the unit.
_FIELDS: Final = (
    *("queue", "priority", "max_attempts", "timeout_s", "expires_s", "retry_when_lost", "retry_on_timeout", "limit"),
    *("limit_count", "limit_key", "concurrency", "concurrency_key", "on_overflow", "keep_content"),
)


class Command(BaseCommand):
    """Make a kind, or change the one of that name."""

    help = "Create or change a kind of job, and its queue."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        for name in (*_FIELDS, "backoff_first_s"):
            parser.add_argument(f"--{_option(name).replace('_', '-')}", **_described(Kind._meta.get_field(name)))
        meaning = "on the labels of its workers, such as vram>=16; may be repeated"
        parser.add_argument("--require", action="append", default=[], metavar="CONDITION", help=meaning)
        meaning = "of RE2: what matches it is redacted minutes after the end; may be repeated"
        parser.add_argument("--redact", action="append", default=[], metavar="PATTERN", help=meaning)

    def handle(self, *, name: str, **options: Any) -> None:
        try:
            kind = operations.Kind(
                name=name, backoff=Backoff(first_s=options["backoff"]), redact="\n".join(options["redact"]),
                requires=labels.read_pairs(options["require"], field="require"),
                **{name: options[_option(name)] for name in _FIELDS},
            )  # fmt: skip
            operations.create_kind(kind)
        except (JobsError, ValueError) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"Kind {kind.name}: its jobs wait in the queue {kind.queue}.")


def _option(field: str) -> str:
    return field.removesuffix("_s").removesuffix("_first")


def _described(field: Any) -> dict[str, Any]:
    common = {"default": field.get_default(), "help": field.help_text}
    if isinstance(field, models.BooleanField):
        return {**common, "action": BooleanOptionalAction}
    if field.choices:
        return {**common, "choices": [value for value, _ in field.choices]}
    return {**common, "type": {models.FloatField: float, models.CharField: str}.get(type(field), int)}
