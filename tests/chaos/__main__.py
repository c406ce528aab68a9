"""`python -m tests.chaos --minutes 3`: break one thing after another, and see that nothing is lost or done twice."""

import argparse
import logging
import random
import secrets
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos import farm as farms
from tests.chaos.crew import until
from tests.chaos.wellness import Probe

if TYPE_CHECKING:
    from tests.chaos.faults import Fault
    from tests.chaos.load import Load
    from tests.chaos.score import Score
    from tests.chaos.truth import Findings
    from tests.outbox.receivers import Receiver

CALM_S = 2.0  # of load before the first fault, and after each
WELL_WITHIN_S = 90.0


def main() -> int:
    """Run the chaos; 0 if everything was as promised, 1 if anything was not."""
    options = _parser().parse_args()
    print(f"chaos for {options.minutes:g} minutes, seed {options.seed}", flush=True)
    with farms.farm(with_redis=options.redis, keep_logs=options.keep) as farm:
        print(f"logs are in {farm.folder}", flush=True)
        farm.begin()
        logging.disable()  # what breaks is told by the score; what the asking side says of it is noise
        return 0 if _run(farm, options) else 1


def _run(farm: farms.Farm, options: argparse.Namespace) -> bool:
    from tests.chaos import events  # it needs Django's models, which the farm has set up by now

    with events.receiving() as there:
        return _run_beside(there, farm, options)


def _run_beside(there: "Receiver", farm: farms.Farm, options: argparse.Namespace) -> bool:
    from tests.chaos import ending, faults, load, score, soak, truth, watcher

    result, rng = score.Score(), random.Random(options.seed)
    asking = load.Load(farm, seed=options.seed)
    page = watcher.Watcher(farm, asking.book)
    findings = truth.Findings()
    asking.start()
    page.start()
    if not until(Probe(farm, asking, findings), within_s=WELL_WITHIN_S):
        raise TimeoutError("the farm does not work even before anything breaks")
    result.say("the farm is up, and works")
    needs = soak.Soak(farm)
    needs.start()
    wanted = [fault for fault in faults.known(farm) if options.only in f"{fault.group}: {fault.name}"]
    deck: list[Fault] = []
    while time.monotonic() - result.began_at < options.minutes * 60:
        deck = deck or rng.sample(wanted, len(wanted))
        _break(farm, deck.pop(), asking, result, findings, rng)
    asking.stop()
    needs.stop()
    farm.heal()
    judged = ending.judged(farm, asking, page, result, findings, there)
    result.cuts = sum(proxy.cuts for proxy in farm.to_web.values())
    result.grown = needs.write(options.page)
    return result.show(asking.book, judged, stuck=farm.crew.stop())


def _break(
    farm: farms.Farm, fault: "Fault", asking: "Load", result: "Score", findings: "Findings", rng: random.Random
) -> None:
    """Break something, mend it, and wait until the farm is well: what is asked now ends, and pages say so."""
    undo = fault.begin(farm, rng)
    time.sleep(fault.lasts_s)
    undo()
    if fault.lasts_s:
        farm.silences.end()
    since = time.monotonic()
    is_well = Probe(farm, asking, findings)
    if not until(is_well, within_s=WELL_WITHIN_S, pause_s=0.1):
        findings.lost.append(f"not well again after {fault.group}: {fault.name} ({is_well.where})")
    farm.silences.end()
    result.note(fault.group, fault.name, time.monotonic() - since)
    time.sleep(CALM_S)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="how long things break (3)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10_000), help="for the same order again")
    parser.add_argument("--redis", action="store_true", help="the channel layer on a Redis, which is killed too")
    parser.add_argument("--only", default="", metavar="WORDS", help='faults that have these words: "cut off"')
    parser.add_argument("--page", type=Path, default=Path("var/soak.html"), help="charts of what the farm needed")
    parser.add_argument("--keep", action="store_true", help="leave the logs where they are")
    return parser


if __name__ == "__main__":
    sys.exit(main())
