"""What a cluster remembers of what it has tried."""

import time
import uuid
from typing import Any

from scheduling.cluster.backlog import Backlog
from scheduling.domain.calls import Kind
from scheduling.queries.functions import Dispatch


def test_a_hundred_thousand_that_were_tried_are_forgotten_in_no_more_than_a_moment(settings: Any) -> None:
    """The first of a plain dict is looked for from its beginning, over all that are gone: 5 s for these."""
    settings.SCHEDULING = settings.SCHEDULING | {"LEASE_S": 0.0}
    backlog = Backlog(cluster_id=uuid.uuid4(), kind=Kind.MUTATION, queues=None)
    backlog.note_tried(Dispatch(id=n, due_pointer="(0,1)", row_pointer="(0,1)") for n in range(100_000))
    before = time.process_time()
    assert backlog.is_quiet()
    assert time.process_time() - before < 1.0
