from argparse import ArgumentParser

from core.commands import MANAGE
from jobfarm.management.commands import farm


class Command(farm.Command):
    """`farm --with-worker`."""

    help = f"As `{MANAGE} farm --with-worker`. {farm.Command.help}"

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.set_defaults(with_worker=True)
