"""Our own worker beside PgQueuer's: eight slots, plain handlers that do nothing, over the socket and HTTP.

.venv/bin/python -m benchmarks.own_worker [--quick] [--rounds 3] [--without-peers]

Ours goes through one web process. PgQueuer's worker stands beside the database, takes a hundred at a time and calls
an async function for each: with plain functions and as many slots it had printed nothing after five minutes. Then the
processor's time a job of the worker and of the web process: what a machine that does other things at the same time
leaves of the rates.
"""

from pathlib import Path

from benchmarks import results
from benchmarks.arena import Found, Place, Workers, places
from benchmarks.options import Options, parse
from benchmarks.peers import OURS, Contender, install
from benchmarks.results import Table
from benchmarks.web import process_of, server

JOBS, WARM_UP, SLOTS = 20_000, 500, 8
WAYS = {"jobfarm, WebSocket": "ws", "jobfarm, HTTP": "http"}
SOCKET, PEER = "jobfarm, WebSocket", "PgQueuer"
TICK_S = 0.01


def main(options: Options) -> list[Table]:
    """Measure; a table of rates, and one of the processor's time."""
    peers = [peer for peer in options.peers if peer.name == PEER]
    for peer in peers:
        install(peer)
    rates = Table(what="One worker of eight slots, plain no-op jobs (jobs/s)", floor=PEER, ours=SOCKET, mark=0.8)
    spent = Table(what="The same, processor's time a job (us)", is_less_better=True)
    with places([OURS, *peers]) as found:
        for _ in range(options.rounds):
            for peer in peers:
                _add_peer(found[peer], rates, options)
            for name, transport in WAYS.items():
                _add(found[OURS], name, transport, rates, spent, options)
    return [rates, spent]


def _add_peer(place: Place, rates: Table, options: Options) -> None:
    jobs = options.many(JOBS, least=100)
    place.run("bulk", jobs)
    with Workers(place, how_many=1) as workers:
        [counted] = workers.drained(jobs)
    rates.add(place.contender.name, jobs / (counted["last"] - counted["first"]))
    options.say(f"{place.contender.name}: {rates.values[place.contender.name][-1]:,.0f}/s")


def _add(place: Place, name: str, transport: str, rates: Table, spent: Table, options: Options) -> None:
    jobs = options.many(JOBS, least=100)
    client = Place(contender=Contender(name=name, script="ours_network.py"), environment=place.environment)
    with server("jobfarm.asgi:application", place.environment) as port:
        more = {"BENCH_SITE": f"http://127.0.0.1:{port}", "BENCH_KEY": str(place.run("key")["key"])}
        more |= {"BENCH_TRANSPORT": transport, "BENCH_SLOTS": str(SLOTS)}
        _drained(place, client, more, options.many(WARM_UP, least=100))  # the server's imports and plans are made
        before_s = _spent_s(process_of(port))
        counted = _drained(place, client, more, jobs)
        web_s = _spent_s(process_of(port)) - before_s
    rates.add(name, jobs / (counted["last"] - counted["first"]))
    spent.add(f"{name}, worker", counted["spent_s"] / jobs * 1e6)
    spent.add(f"{name}, web process", web_s / jobs * 1e6)
    options.say(f"{name}: {rates.values[name][-1]:,.0f}/s, worker {counted['spent_s']:.2f} s, web {web_s:.2f} s")


def _drained(place: Place, client: Place, more: dict[str, str], jobs: int) -> Found:
    place.run("bulk", jobs)
    with Workers(client, how_many=1, more=more) as workers:
        [counted] = workers.drained(jobs)
    return counted


def _spent_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


if __name__ == "__main__":
    results.show(main(parse(__doc__)))
