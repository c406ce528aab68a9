"""What breaks, one after another. Each fault is begun, lasts a while, and is undone (a kill is over at once)."""

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.crew import send
from tests.chaos.farm import CLUSTERS, LEASE_S, WEBS, WORKERS, Farm
from tests.chaos.proxy import Proxy

Undo = Callable[[], object]
# A cluster that is silent for ten seconds has its work given to others (scheduling.operations.clusters).
PAST_SILENCE_S = 13.0
PAST_LEASE_S = LEASE_S + 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault. `begin` breaks something and returns what mends it, `lasts_s` later."""

    group: str
    name: str
    begin: Callable[[Farm, random.Random], Undo]
    lasts_s: float = 0.0


def known(farm: Farm) -> list[Fault]:
    """All kinds that can be had on this machine."""
    faults = [
        Fault(group="killed", name="web", begin=_signals(WEBS, signal.SIGKILL)),
        Fault(group="killed", name="worker", begin=_signals([*WORKERS], signal.SIGKILL)),
        Fault(group="killed", name="janitor", begin=_signals(["janitor"], signal.SIGKILL)),
        Fault(group="killed", name="process of a cluster", begin=_kill_one_of_a_cluster),
        Fault(group="killed", name="keeper of a cluster", begin=_signals(CLUSTERS, signal.SIGKILL)),
        Fault(group="killed", name="whole cluster", begin=_signals(CLUSTERS, signal.SIGKILL, everything=True)),
        Fault(group="killed", name="everything but the database", begin=_kill_all),
        Fault(group="restarted", name="web", begin=_signals(WEBS, signal.SIGTERM)),
        Fault(group="restarted", name="worker", begin=_signals([*WORKERS], signal.SIGTERM)),
        Fault(group="restarted", name="cluster", begin=_signals(CLUSTERS, signal.SIGTERM)),
        Fault(group="stopped", name="worker, past its lease", begin=_stops([*WORKERS]), lasts_s=PAST_LEASE_S),
        Fault(group="stopped", name="web", begin=_stops(WEBS), lasts_s=PAST_LEASE_S),
        Fault(group="stopped", name="janitor", begin=_stops(["janitor"]), lasts_s=PAST_LEASE_S),
        Fault(group="stopped", name="cluster, until it is given up", begin=_stops(CLUSTERS), lasts_s=PAST_SILENCE_S),
        Fault(group="cut off", name="worker, for a moment", begin=_cuts_worker("resume"), lasts_s=1.5),
        Fault(group="cut off", name="worker, past its lease", begin=_cuts_worker("forget"), lasts_s=PAST_LEASE_S),
        Fault(group="cut off", name="worker, half open for ever", begin=_cuts_worker("forsake"), lasts_s=PAST_LEASE_S),
        Fault(group="cut off", name="web from the database", begin=_cuts_database(WEBS, "resume"), lasts_s=3),
        Fault(group="cut off", name="web from the database, reset", begin=_cuts_database(WEBS, "forget"), lasts_s=3),
        Fault(group="cut off", name="cluster from the database, reset", begin=_cuts_database(CLUSTERS, "forget"),
              lasts_s=PAST_SILENCE_S),
        Fault(group="database", name="stopped at once", begin=_stop_database, lasts_s=1),
        Fault(group="database", name="a session's process killed", begin=_kill_backend),
        Fault(group="database", name="all sessions ended", begin=_end_sessions),
    ]  # fmt: skip
    if farm.files.is_there:
        faults.append(Fault(group="disk full", name="of result files", begin=_fill_files, lasts_s=4))
    if farm.disk is not None:
        faults.append(Fault(group="disk full", name="of the database", begin=_fill_disk, lasts_s=3))
    if farm.redis is not None:
        faults.append(Fault(group="killed", name="Redis", begin=_kill_redis, lasts_s=1))
    return faults


def _nothing() -> None:
    """A kill needs no mending: whoever watches starts another process."""


def _signals(
    names: "tuple[str, ...] | list[str]", number: signal.Signals, *, everything: bool = False
) -> Callable[[Farm, random.Random], Undo]:
    def begin(farm: Farm, rng: random.Random) -> Undo:
        farm.crew[rng.choice(names)].signal(number, everything=everything)
        return _nothing

    return begin


def _stops(names: "tuple[str, ...] | list[str]") -> Callable[[Farm, random.Random], Undo]:
    """All of its processes freeze, and go on later as if nothing had been."""

    def begin(farm: Farm, rng: random.Random) -> Undo:
        pids = farm.crew[rng.choice(names)].pids()
        for pid in pids:
            send(pid, signal.SIGSTOP)

        def go_on() -> None:
            for pid in pids:
                send(pid, signal.SIGCONT)

        return go_on

    return begin


def _kill_all(farm: Farm, _: random.Random) -> Undo:
    for name in (*WEBS, "janitor", *CLUSTERS, *WORKERS):
        farm.crew[name].signal(signal.SIGKILL, everything=True)
    return _nothing


def _kill_one_of_a_cluster(farm: Farm, rng: random.Random) -> Undo:
    _, *others = farm.crew[rng.choice(CLUSTERS)].pids() or [0]
    if others:
        send(rng.choice(others), signal.SIGKILL)
    return _nothing


def _cuts_worker(how: str) -> Callable[[Farm, random.Random], Undo]:
    return lambda farm, rng: _cut(farm.to_web[rng.choice([*WORKERS])], how)


def _cuts_database(names: tuple[str, ...], how: str) -> Callable[[Farm, random.Random], Undo]:
    return lambda farm, rng: _cut(farm.to_database[rng.choice(names)], how)


def _cut(proxy: Proxy, how: str) -> Undo:
    proxy.fall_silent()
    mend: Undo = getattr(proxy, how)
    return mend


def _stop_database(farm: Farm, _: random.Random) -> Undo:
    farm.postgres.stop_at_once()
    return farm.postgres.start


def _end_sessions(farm: Farm, _: random.Random) -> Undo:
    farm.postgres.terminate_sessions()
    return _nothing


def _kill_backend(farm: Farm, rng: random.Random) -> Undo:
    farm.postgres.kill_backend(rng.randrange(1000))
    return _nothing


def _fill_files(farm: Farm, _: random.Random) -> Undo:
    farm.files.fill()
    return farm.files.empty


def _fill_disk(farm: Farm, _: random.Random) -> Undo:
    """A server that cannot write its log ends; it comes back when there is room again, if somebody starts it."""
    assert farm.disk is not None
    farm.disk.fill()

    def mend() -> None:
        assert farm.disk is not None
        farm.disk.empty()
        farm.postgres.start()

    return mend


def _kill_redis(farm: Farm, _: random.Random) -> Undo:
    assert farm.redis is not None
    farm.redis.kill()
    return farm.redis.start
