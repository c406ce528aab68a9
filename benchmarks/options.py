"""What all benchmarks can be told, and how much of its full size each runs at.

BENCH_SHARE is a part of the full size, for counts and seconds alike: with 0.001 every benchmark runs to its end in
seconds, to see whether it works. Such numbers are not compared with anything, and no exit code judges them. Peers take
part then if their environments are there: none is installed for it.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.peers import PEERS, Contender, is_installed

SHARE: Final = float(os.environ.get("BENCH_SHARE", "1"))
QUICK: Final = 0.1


def scaled(full: int, *, least: int = 1, share: float = SHARE) -> int:
    """So many of a full run's, at least `least` of them (but never more than the full run's)."""
    return min(full, max(least, int(full * share)))


def scaled_s(full_s: float, *, least_s: float = 0.5, share: float = SHARE) -> float:
    """So many seconds of a full run's."""
    return min(full_s, max(least_s, full_s * share))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`share`: of the full size; one round where it is not 1."""

    share: float
    rounds: int
    peers: tuple[Contender, ...]

    @property
    def quick(self) -> bool:
        """Whether this is to see whether it works, and not to compare."""
        return self.share < 1

    def many(self, full: int, *, least: int = 1) -> int:
        """As `scaled`."""
        return scaled(full, least=least, share=self.share)

    def seconds(self, full_s: float, *, least_s: float = 0.5) -> float:
        """As `scaled_s`."""
        return scaled_s(full_s, least_s=least_s, share=self.share)

    def say(self, line: str) -> None:
        """Tell who waits how far it is."""
        print(line, flush=True)


def parse(about: str | None, arguments: Sequence[str] | None = None) -> Options:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    return read(parser, arguments)


def read(parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> Options:
    """Add the options to a parser, and read them."""
    parser.add_argument("--quick", action="store_true", help="a tenth of the full size, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-peers", action="store_true")
    parser.add_argument("--only", type=lambda text: text.split(","), help="these peers, by name", default=None)
    parser.add_argument("--history", type=Path, metavar="FOLDER", help="what workers ask (benchmarks/recorded.py)")
    given, _ = parser.parse_known_args(arguments)
    if given.history is not None:
        given.history.mkdir(parents=True, exist_ok=True)
        os.environ["BENCH_HISTORY"] = str(given.history.absolute())
    share = SHARE * (QUICK if given.quick else 1)
    wanted = [] if given.without_peers else [p for p in PEERS if given.only is None or p.name in given.only]
    if SHARE < 1:
        wanted = [peer for peer in wanted if is_installed(peer)]
    return Options(share=share, rounds=1 if share < 1 else given.rounds, peers=tuple(wanted))
