"""A member's worker behind ten thousand jobs of one other person, in a farm whose statistics know of no owner."""

import pytest
from django.db import connection, transaction

from jobs import operations
from jobs.domain.watermarks import Watermarks
from jobs.models import Worker
from jobs.queries import moves
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)
OTHERS = 10_000
MOST_BUFFERS = 60
_FILL = """
INSERT INTO jobs_job (kind, queue, status, priority, owner_id, created_at, run_at, max_attempts, failures,
                      retry_on_timeout, excluded_workers, fence, next_seq)
SELECT 'work', 'work', 'pending', 0, %s, now() - interval '2 hours', now() - interval '1 hour' + n * interval '1 ms',
       3, 0, false, '{}', 0, 0
FROM generate_series(1, %s) AS n
"""

_ENDED = """
INSERT INTO jobs_job (kind, queue, status, priority, created_at, run_at, ended_at, max_attempts, failures,
                      retry_on_timeout, excluded_workers, fence, next_seq)
SELECT 'work', 'work', 'success', 0, now() - interval '2 hours', now(), now(), 3, 0, false, '{}', 1, 0
FROM generate_series(1, 50000) AS n
"""


def _buffers_of_a_claim(worker: Worker) -> int:
    whole = Watermarks().scan(["work"], now_s=0, owner_id=worker.owner_id)
    with transaction.atomic():
        statement, params = moves.claim_call(worker, queues=["work"], limit=1, only_if_idle=False, scan=whole)
        plan = statement.explain(params)["Plan"]
        transaction.set_rollback(True)
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


@pytest.mark.parametrize("has_one", [False, True])
def test_reads_none_of_them(has_one: bool) -> None:
    farm.kind()
    ada, bob = farm.user("ada"), farm.user("bob")
    hers = farm.worker("hers", owner=ada)
    with connection.cursor() as cursor:
        cursor.execute(_ENDED)
        cursor.execute("VACUUM (ANALYZE) jobs_job")  # of an idle hour
        cursor.execute(_FILL, [bob.pk, OTHERS])
    if has_one:
        operations.submit("work", {}, owner=ada)
    _buffers_of_a_claim(hers)
    assert _buffers_of_a_claim(hers) <= MOST_BUFFERS
