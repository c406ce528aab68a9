"""What all benchmarks can be told."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.peers import PEERS, Contender


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`quick`: a tenth of the jobs, one round; to see whether it works, not to compare."""

    quick: bool
    rounds: int
    peers: tuple[Contender, ...]

    def say(self, line: str) -> None:
        """Tell who waits how far it is."""
        print(line, flush=True)


def parse(about: str | None, arguments: Sequence[str] | None = None) -> Options:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    return read(parser, arguments)


def read(parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> Options:
    """Add the options to a parser, and read them."""
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-peers", action="store_true")
    parser.add_argument(
        "--only", type=lambda text: text.split(","), help="these peers, by name", default=None
    )
    given, _ = parser.parse_known_args(arguments)
    wanted = [] if given.without_peers else [p for p in PEERS if given.only is None or p.name in given.only]
    return Options(quick=given.quick, rounds=1 if given.quick else given.rounds, peers=tuple(wanted))
