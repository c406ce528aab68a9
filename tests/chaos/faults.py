"""What breaks, one after another. Each fault is begun, lasts a while, and is undone (a kill is over at once)."""

import random
import signal
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tests.chaos.crew import send
from tests.chaos.farm import CLUSTERS, LEASE_S, WEBS, WORKERS, Farm
from tests.chaos.proxy import Proxy, Sort

Undo = Callable[[], object]
# A cluster that is silent for ten seconds has its work given to others (scheduling.operations.clusters).
PAST_SILENCE_S = 13.0
PAST_LEASE_S = LEASE_S + 2.5
TWO_LEASES_S = 2 * LEASE_S + 1
MOMENT_S = 1.5
APART_S = 0.2  # between those that go on
EVERY = 4  # so many answers that one of them is cut


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
        Fault(group="stopped", name="janitor, for two leases", begin=_stops(["janitor"]), lasts_s=TWO_LEASES_S),
        Fault(group="stopped", name="every web, for two leases", begin=_stop_all(WEBS), lasts_s=TWO_LEASES_S),
        Fault(group="stopped", name="every web and the janitor, which goes on first",
              begin=_stop_all(("janitor", *WEBS)), lasts_s=TWO_LEASES_S),
        Fault(group="stopped", name="cluster, until it is given up", begin=_stops(CLUSTERS), lasts_s=PAST_SILENCE_S),
        Fault(group="cut off", name="worker, for a moment", begin=_cuts_worker("resume"), lasts_s=MOMENT_S),
        Fault(group="cut off", name="worker, past its lease", begin=_cuts_worker("forget"), lasts_s=PAST_LEASE_S),
        Fault(group="cut off", name="worker, half open for ever", begin=_cuts_worker("forsake"), lasts_s=PAST_LEASE_S),
        Fault(group="cut off", name="web from the database", begin=_cuts_database(WEBS, "resume"), lasts_s=3),
        Fault(group="cut off", name="web from the database, reset", begin=_cuts_database(WEBS, "forget"), lasts_s=3),
        Fault(group="cut off", name="every web from the database, for two leases", begin=_cut_every_web("resume"),
              lasts_s=TWO_LEASES_S),
        Fault(group="cut off", name="every web from the database, for two leases, reset",
              begin=_cut_every_web("forget"), lasts_s=TWO_LEASES_S),
        Fault(group="cut off", name="cluster from the database, reset", begin=_cuts_database(CLUSTERS, "forget"),
              lasts_s=PAST_SILENCE_S),
        Fault(group="answers cut", name="one of four calls by HTTP", begin=_cut_answers("http"), lasts_s=TWO_LEASES_S),
        Fault(group="answers cut", name="one of four by socket", begin=_cut_answers("ws"), lasts_s=TWO_LEASES_S),
        Fault(group="database", name="restarted", begin=_restart_database("stop")),
        Fault(group="database", name="restarted at once", begin=_restart_database("stop_at_once")),
        Fault(group="database", name="away for two leases", begin=_restart_database("stop"), lasts_s=TWO_LEASES_S),
        Fault(group="database", name="stopped at once", begin=_restart_database("stop_at_once"), lasts_s=1),
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
        name = rng.choice(names)
        _silence(farm, [name])
        farm.crew[name].signal(number, everything=everything)
        if number == signal.SIGKILL:  # what it had is lost at this moment; what others claim from now on is not
            farm.silences.end()
        return _nothing

    return begin


def _stops(names: "tuple[str, ...] | list[str]") -> Callable[[Farm, random.Random], Undo]:
    """All of its processes freeze, and go on later as if nothing had been."""

    def begin(farm: Farm, rng: random.Random) -> Undo:
        name = rng.choice(names)
        _silence(farm, [name])
        return _stop(farm, [name])

    return begin


def _stop_all(names: Sequence[str]) -> Callable[[Farm, random.Random], Undo]:
    """The farm hears nobody, so no worker is silent. They go on in this order."""
    return lambda farm, _: _stop(farm, names)


def _stop(farm: Farm, names: Sequence[str]) -> Undo:
    pids = [pid for name in names for pid in farm.crew[name].pids()]
    for pid in pids:
        send(pid, signal.SIGSTOP)

    def go_on() -> None:
        for pid in pids:
            send(pid, signal.SIGCONT)
            time.sleep(APART_S)

    return go_on


def _silence(farm: Farm, names: Collection[str]) -> None:
    """Nobody hears these workers, nor those of these web servers. (While one server hears, the farm hears.)"""
    farm.silences.begin(name for name, (web, *_) in WORKERS.items() if name in names or web in names)


def _kill_all(farm: Farm, _: random.Random) -> Undo:
    _silence(farm, [*WORKERS])
    for name in (*WEBS, "janitor", *CLUSTERS, *WORKERS):
        farm.crew[name].signal(signal.SIGKILL, everything=True)
    farm.silences.end()
    return _nothing


def _kill_one_of_a_cluster(farm: Farm, rng: random.Random) -> Undo:
    _, *others = farm.crew[rng.choice(CLUSTERS)].pids() or [0]
    if others:
        send(rng.choice(others), signal.SIGKILL)
    return _nothing


def _cuts_worker(how: str) -> Callable[[Farm, random.Random], Undo]:
    """Past its lease it is not heard; for a moment (`resume`) it is, in time."""

    def begin(farm: Farm, rng: random.Random) -> Undo:
        name = rng.choice([*WORKERS])
        if how != "resume":
            _silence(farm, [name])
        return _cut([farm.to_web[name]], how)

    return begin


def _cuts_database(names: tuple[str, ...], how: str) -> Callable[[Farm, random.Random], Undo]:
    def begin(farm: Farm, rng: random.Random) -> Undo:
        name = rng.choice(names)
        _silence(farm, [name])
        return _cut([farm.to_database[name]], how)

    return begin


def _cut_every_web(how: str) -> Callable[[Farm, random.Random], Undo]:
    return lambda farm, _: _cut([farm.to_database[web] for web in WEBS], how)


def _cut(proxies: Sequence[Proxy], how: str) -> Undo:
    for proxy in proxies:
        proxy.fall_silent()

    def mend() -> None:
        for proxy in proxies:
            getattr(proxy, how)()

    return mend


def _cut_answers(sort: Sort) -> Callable[[Farm, random.Random], Undo]:
    """Workers are heard, and do not hear: none of them is silent."""

    def begin(farm: Farm, _: random.Random) -> Undo:
        for proxy in farm.to_web.values():
            proxy.cut_answers(sort, every=EVERY)

        def mend() -> None:
            for proxy in farm.to_web.values():
                proxy.spare_answers()

        return mend

    return begin


def _restart_database(how: str) -> Callable[[Farm, random.Random], Undo]:
    def begin(farm: Farm, _: random.Random) -> Undo:
        getattr(farm.postgres, how)()
        return farm.postgres.start

    return begin


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
