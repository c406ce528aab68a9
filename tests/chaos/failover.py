"""`python -m tests.chaos.failover --rounds 20`: a primary dies or freezes, its standby takes over.

Each round kills or freezes the primary under load, promotes the standby as a failover manager would, measures how long
the farm takes to be well, has the old primary come back as one, and makes it the new standby.
"""

import argparse
import logging
import math
import random
import secrets
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from postgres.probe import Verdict
from tests.chaos import farm as farms
from tests.chaos.crew import until
from tests.chaos.pair import Pair
from tests.chaos.wellness import Probe

if TYPE_CHECKING:
    from tests.chaos.load import Load
    from tests.chaos.score import Score
    from tests.chaos.truth import Findings

STRIKES = {"killed": signal.SIGKILL, "frozen": signal.SIGSTOP}
NOTICED_S = 2.0  # what a failover manager needs to see it; Patroni has 30 as it comes, and takes part of it
BESIDE_S = 3.0  # the old primary lives beside the new one
CALM_S = 2.0
WELL_WITHIN_S = 90.0
PROMISED_S = 30.0  # p99 of all rounds


@dataclass(slots=True)
class Rounds:
    """How long each took, from the blow to the end of something of each sort; and what the old primaries did then."""

    took_s: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in STRIKES})
    verdicts: list[Verdict] = field(default_factory=list)

    def p99_s(self) -> float:
        """Of up to a hundred rounds that is the longest."""
        took = sorted(second for each in self.took_s.values() for second in each)
        return took[math.ceil(len(took) * 0.99) - 1]

    def show(self, *, is_synchronous: bool) -> bool:
        """Print it; whether it is as promised."""
        for name, took in self.took_s.items():
            print(f"{name:16} {len(took)} rounds: {' '.join(f'{second:.1f}' for second in took)} s")
        answered = self.verdicts.count(Verdict.WRITABLE)
        print(f"recovery p99     {self.p99_s():.1f} s, of it {NOTICED_S:.0f} s until the standby was promoted")
        print(f"old primaries    {len(self.verdicts)} came back, {answered} of them acknowledged a write")
        return self.p99_s() < PROMISED_S and not (is_synchronous and answered)


def main() -> int:
    """Run the rounds; 0 if everything was as promised. Of an asynchronous standby only the recovery is promised."""
    options = _parser().parse_args()
    mode = "asynchronous" if options.asynchronous else "synchronous"
    print(f"{options.rounds} rounds with {mode} replication, seed {options.seed}", flush=True)
    pair = Pair(is_synchronous=not options.asynchronous)
    try:
        with farms.farm(with_redis=False, keep_logs=options.keep, pair=pair) as farm:
            print(f"logs are in {farm.folder}", flush=True)
            farm.begin()
            logging.disable()
            return 0 if _run(farm, pair, rounds=options.rounds, seed=options.seed) else 1
    finally:
        pair.remove()


def _run(farm: farms.Farm, pair: Pair, *, rounds: int, seed: int) -> bool:
    # Modules that need Django's models, which the farm has set up by now.
    from tests.chaos import ending, load, score, truth, watcher

    result, asking, findings = score.Score(), load.Load(farm, seed=seed), truth.Findings()
    page = watcher.Watcher(farm, asking.book)
    asking.start()
    page.start()
    if not until(Probe(farm, asking, findings), within_s=WELL_WITHIN_S):
        raise TimeoutError("the farm does not work even before anything breaks")
    played = Rounds()
    for name in _order(rounds, seed):
        _play(name, farm, pair, played, asking, result, findings)
    judged = ending.judged(farm, asking, page, result, findings)
    is_true = result.show(asking.book, judged, stuck=farm.crew.stop())
    is_as_promised = played.show(is_synchronous=pair.is_synchronous)
    return is_as_promised and (is_true or not pair.is_synchronous)


def _order(rounds: int, seed: int) -> list[str]:
    """As many of the one as of the other, in any order."""
    names = [list(STRIKES)[n % 2] for n in range(rounds)]
    random.Random(seed).shuffle(names)
    return names


def _play(
    name: str, farm: farms.Farm, pair: Pair, played: Rounds, asking: "Load", result: "Score", findings: "Findings"
) -> None:
    since = time.monotonic()
    pair.strike(STRIKES[name])
    time.sleep(NOTICED_S)
    pair.promote()
    is_well = Probe(farm, asking, findings)
    if not until(is_well, within_s=WELL_WITHIN_S, pause_s=0.1):
        findings.lost.append(f"not well again after the primary was {name} ({is_well.where})")
    played.took_s[name].append(time.monotonic() - since)
    result.note(name, "the primary", played.took_s[name][-1])
    played.verdicts.append(pair.wake())
    time.sleep(BESIDE_S)
    result.say(f"the old primary was {played.verdicts[-1]}, with {pair.sessions(pair.standby)} sessions")
    pair.rejoin()
    time.sleep(CALM_S)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how often the primary is lost (20)")
    parser.add_argument("--asynchronous", action="store_true", help="commits do not wait for the standby")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10_000), help="for the same order again")
    parser.add_argument("--keep", action="store_true", help="leave the logs where they are")
    return parser


if __name__ == "__main__":
    sys.exit(main())
