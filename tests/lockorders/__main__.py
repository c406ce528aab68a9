"""Makes one graph of what the processes of a run wrote down, and names its circles."""

import itertools
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.schedules.orders import circles

# Orders that are no part of a circle, and why. Whoever runs into one of those that are is run once more, by
# `transactions.retried` or as a mutation.
_JOBS: Final = "both are of jobs whose rows of jobs_live it has locked before, in the order of their ids"
KNOWN: Final[Mapping[tuple[str, str], str]] = {
    ("advisory 1784635253", "jobs_live"): "who moves a ceiling waits half a second at most, and does it once more",
    ("jobs_charge", "jobs_live"): "who makes a queue fair or plain does it once more, as who moves a ceiling",
    ("jobs_contentdeletion", "jobs_outcome"): "both are of an ended job whose record it has locked before",
    ("jobs_served", "jobs_live"): "who makes a queue fair or plain does it once more, as who moves a ceiling",
    ("jobs_job", "jobs_live"): "who retries a step has it locked before those it comes after, and is run again",
    ("jobs_job", "jobs_uniquekey"): _JOBS,
    ("jobs_step", "jobs_edge"): _JOBS,
    ("jobs_suspension", "jobs_edge"): _JOBS,
    ("metering_budget", "metering_reservation"): "who deletes a budget is run again",
    ("metering_window", "metering_reservation"): "who deletes a budget is run again",
    ("outbox_endpoint", "outbox_message"): "who resumes or disables an endpoint does it once more (tests/schedules)",
    ("webhooks_catalogmodel", "webhooks_modelserver"): "of servers that nobody names any more, and nobody else asks",
    ("webhooks_jobstart", "webhooks_delivery"): "of a delivery that is mended; what is forgotten ended months ago",
}

TRIED: Final = {("advisory 1784635252", "exclusive")}  # nobody waits for these: who tidies a lane passes it over

Edge = Sequence[str]  # a lock and how it is held, one that is waited for and how; both statements, and the test


def graph(edges: Iterable[Edge]) -> dict[str, set[str]]:
    """After which lock somebody can wait for which that another holds: those that bear each other are no hindrance."""
    edges = [edge for edge in edges if (edge[0], edge[2]) not in KNOWN and tuple(edge[2:4]) not in TRIED]
    held = {(name, mode) for name, mode, *_ in edges}
    later: dict[str, set[str]] = defaultdict(set)
    for name, mode, wanted, how, *_ in edges:
        later[f"{name} ({mode})"] |= {f"{wanted} ({other})" for lock, other in held
                                      if lock == wanted and _conflict(how, other)}  # fmt: skip
    return later


def _conflict(one: str, other: str) -> bool:
    return not (one == other == "shared" or {one, other} in ({"key"}, {"key", "changed"}))


def main() -> int:
    """Print each circle, with who takes these locks in that order; 1 if there is one."""
    [folder] = map(Path, sys.argv[1:])
    edges = [json.loads(line) for path in folder.glob("*.orders") for line in path.read_text().splitlines()]
    later = graph(edges)
    found = circles(later)
    for circle in found:
        print(circle)
        places = circle.split(" before ")
        for first, then in itertools.pairwise(places):
            for name, mode, wanted, how, earlier, statement, test in edges:
                if f"{name} ({mode})" == first and then.startswith(f"{wanted} ("):
                    print(f"    {first} by {earlier}, then {wanted} ({how}) by {statement}: {test}")
    print(f"{len(later)} locks, {sum(map(len, later.values()))} orders, {len(found)} circles")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
