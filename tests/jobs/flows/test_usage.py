"""What the jobs of a flow used together, in seconds, tokens and money."""

import pytest
from django.test import Client

from jobs import operations
from jobs.errors import NotFound
from jobs.models import Job
from jobs.queries import flows
from tests import farm
from tests.metering import budgets
from tests.metering.budgets import answer, call

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_flow_shows_what_all_its_attempts_used_those_of_jobs_that_were_tried_again_among_them() -> None:
    ada = farm.user("ada")
    budgets.price(into=1_000_000, out=2_000_000)
    gpu, first = budgets.worker(), call(ada)
    second = call(ada, after=[first.pk])
    flow_id = Job.objects.get(pk=first.pk).flow_id
    assert flow_id is not None
    assert flows.seen(flow_id, viewer=ada.pk).used is None
    farm.fail(gpu, farm.claim_one(gpu), retryable=False)
    operations.retry(first.pk, by=ada)
    farm.succeed(gpu, farm.claim_one(gpu), answer(10, 5))
    farm.succeed(gpu, farm.claim_one(gpu), answer(100, 20))
    used = flows.seen(flow_id, viewer=ada.pk).used
    assert used is not None
    assert (used.attempts, used.tokens_in, used.tokens_out, float(used.cost)) == (3, 110, 25, 160.0)
    assert "3 attempts; 110 tokens in, 25 out" in used.sentence
    bo = farm.user("bo")
    with pytest.raises(NotFound):
        flows.seen(flow_id, viewer=bo.pk)
    page = Client()
    page.force_login(ada)
    assert used.sentence in page.get(f"/flows/{flow_id}/").content.decode()
    assert farm.status(second) == "canceled", "its place is another's now"
