"""What a job costs the database from submit to finish: bytes of WAL, dead rows, transactions.

.venv/bin/python -m benchmarks.cost [--quick] [--only PgQueuer,Celery] [--without-peers]

Jobs are submitted one a commit, then drained by two workers. WAL is the server's, so nothing else may run on it. Dead
rows are versions that an UPDATE or DELETE left behind; transactions are commits and rollbacks of one database.
"""

import time

from benchmarks import results
from benchmarks.arena import Place, Workers, places
from benchmarks.options import Options, parse
from benchmarks.peers import OURS, RAW, install
from benchmarks.results import Table

JOBS = 2_000
WHAT = ("WAL bytes a job", "Dead rows a job", "Transactions a job")
STATE = """
SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn,
       (SELECT coalesce(sum(n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables),
       (SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database())
"""


def main(options: Options) -> list[Table]:
    """Measure; three tables."""
    contenders = [RAW, OURS, *(peer for peer in options.peers if peer.name != "Celery")]  # Redis has no WAL to read
    for one in contenders:
        install(one)
    tables = [Table(what=what, floor=RAW.name, ours=OURS.name, is_less_better=True) for what in WHAT]
    with places(contenders) as found:
        for place in found.values():
            jobs = options.many(int(JOBS * place.contender.share), least=100)
            for table, used in zip(tables, _used(place, jobs), strict=True):
                table.add(place.contender.name, used / jobs)
            options.say(f"{place.contender.name}: {jobs} jobs")
    return tables


def _used(place: Place, jobs: int) -> list[float]:
    with place.psycopg() as connection:
        before = connection.execute(STATE).fetchone()
        place.run("enqueue", jobs)
        with Workers(place) as workers:
            workers.drained(jobs)
        time.sleep(1.5)  # sessions report what they did at most once a second
        after = connection.execute(STATE).fetchone()
    assert before
    assert after
    return [float(now - was) for was, now in zip(before, after, strict=True)]


if __name__ == "__main__":
    results.show(main(parse(__doc__)))
