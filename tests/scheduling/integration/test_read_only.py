"""The outcome of an action, while the database takes no writes: after a failover, say."""

import uuid

import pytest
from django.db import connection, transaction

from scheduling.models import Cluster
from scheduling.operations import clusters, runner

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_outcome_is_written_again_after_the_database_was_read_only() -> None:
    tries: list[int] = []
    cluster_id = uuid.uuid4()

    def write() -> None:
        tries.append(1)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY" if len(tries) == 1 else "SELECT 1")
            clusters.begin(cluster_id, role="actions")

    runner._until_it_holds(write)

    assert len(tries) == 2
    assert Cluster.objects.filter(cluster_id=cluster_id).exists()
