"""Scheduled mutations that are due at one instant, done by one cluster of two workers: us and stock django-q2.

.venv/bin/python -m benchmarks.scheduled [--quick] [--rounds 3] [--without-peers]

Both run functions that do the same one UPDATE, each of its own row. Many become due with one commit while the cluster
waits; a rate is theirs from the first UPDATE to the last, by the database's clock. Ours run each in a serializable
transaction that keeps the outcome with the effect. django-q2 acknowledges, runs and stores in separate ones.
"""

import time
from collections.abc import Mapping
from typing import Any

import psycopg

from benchmarks import results
from benchmarks.arena import Place, Workers, places
from benchmarks.contenders import updates
from benchmarks.options import Options, parse
from benchmarks.peers import PEERS, Contender, install
from benchmarks.results import Table

DUE, WARM_UP = 2_000, 50
WITHIN_S = 120.0
PACKAGES = next(peer.packages for peer in PEERS if peer.name == "django-q2")
OURS = Contender(name="jobfarm", script="ours_scheduled.py")
STOCK = Contender(name="django-q2", script="django_q_scheduled.py", packages=PACKAGES, share=0.5)
# Stock django-q2 keeps how each function ended, as we do; told to forget it, it has less to do.
KEEPS_NONE = "django-q2, keeps no outcomes"
WAYS: dict[str, tuple[Contender, Mapping[str, str]]] = {
    OURS.name: (OURS, {"SCHEDULING_GUARDS": "0"}),
    STOCK.name: (STOCK, {"BENCH_SAVE_LIMIT": "0"}),
    KEEPS_NONE: (STOCK, {"BENCH_SAVE_LIMIT": "-1"}),
}


def main(options: Options) -> list[Table]:
    """Measure; one table."""
    has_peer = any(peer.name == "django-q2" for peer in options.peers)
    contenders = [OURS, STOCK] if has_peer else [OURS]
    for one in contenders:
        install(one)
    table = Table(
        what="Scheduled functions due at once, one cluster of two workers (functions/s)",
        floor=STOCK.name, mark=5.0,
    )  # fmt: skip
    with places(contenders) as found:
        for _ in range(options.rounds):
            for name, (contender, more) in WAYS.items():
                if contender in found:
                    table.add(name, _rate(found[contender], more, options))
                    options.say(f"{name}: {table.values[name][-1]:,.0f} functions/s")
    return [table]


def _rate(place: Place, more: Mapping[str, str], options: Options) -> float:
    due = options.many(int(DUE * place.contender.share), least=50)
    with Workers(place, how_many=1, more=dict(more)), place.psycopg() as connection:
        _due(place, WARM_UP, connection)  # connections, plans, imports
        return due / _due(place, due, connection)


def _due(place: Place, count: int, connection: "psycopg.Connection[Any]") -> float:
    """Have so many done; the seconds from the first to the last. Raises TimeoutError."""
    for statement in updates.RESET:
        connection.execute(statement.encode())
    place.run("bulk", count)
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        [(changed, first, last)] = connection.execute(updates.CHANGED.encode())
        if changed == count:
            return float((last - first).total_seconds())
        time.sleep(0.1)
    raise TimeoutError(f"{place.contender.name}: {changed} of {count}")


if __name__ == "__main__":
    results.show(main(parse(__doc__)))
