from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from jobfarm import administration
from jobfarm.administration import Granted


class Command(BaseCommand):
    help = (
        "Make the groups “operators” and “operators (read only)” with their permissions, if they do not exist. "
        "If they exist, say what is missing, as after an upgrade; --reset corrects it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--reset", action="store_true", help="give both exactly the permissions of new ones")

    def handle(self, *, reset: bool, **_: Any) -> None:
        for granted in administration.grant(reset=reset):
            self.stdout.write(f"{granted.name}: {_sentence(granted, reset=reset)}")
            if granted.is_new:
                continue
            for sign, rights in (("-", granted.missing), ("+", granted.further)):
                for right in rights:
                    self.stdout.write(f"  {sign} {right}")


def _sentence(granted: Granted, *, reset: bool) -> str:
    if granted.is_new:
        return f"made, with {len(granted.missing)} rights."
    if not granted.missing and not granted.further:
        return "as it should be."
    summary = f"{len(granted.missing)} rights missing, {len(granted.further)} more than a new one has"
    return f"{summary}: put right." if reset else f"{summary}. --reset puts that right."
