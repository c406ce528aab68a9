from argparse import ArgumentParser

from jobfarm.management.commands import farm


class Command(farm.Command):
    """`farm --with-worker`."""

    help = f"{farm.Command.help} It starts a worker too, which `farm` does not."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.set_defaults(with_worker=True)
