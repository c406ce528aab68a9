"""The blocks of docs/flows.md, as they are printed."""

import json
from typing import Any

import pytest

from jobs import operations
from jobs.models import FlowTemplate, Job
from tests import documented, farm

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_flow_of_the_page_runs_as_printed_and_one_more_joins_it() -> None:
    farm.kind()
    printed: dict[str, Any] = {}
    exec(documented.block("flows.md", "from jobs import operations as jobs\n\nsplit"), printed)
    exec(documented.block("flows.md", "send = "), printed)
    worker = farm.worker()
    order = []
    while Job.objects.living().exists():
        job = farm.claim_one(worker)
        order.append(job.id)
        farm.succeed(worker, job)
    assert order == [*(printed[name] for name in ("split", "left", "right", "join")), printed["send"].pk]


def test_a_flow_is_canceled_and_tried_again_from_its_first_job_as_printed() -> None:
    farm.kind()
    printed: dict[str, Any] = {}
    exec(documented.block("flows.md", "from jobs import operations as jobs\n\nsplit"), printed)
    exec(documented.block("flows.md", "send = "), printed)
    exec(documented.block("flows.md", "jobs.flows.cancel"), printed)
    assert [job.retry_of_id is None for job in Job.objects.living()] == [False] * 5
    assert len(printed["again"]) == 5


def test_a_template_is_started_as_printed() -> None:
    farm.kind()
    jobs = json.loads(documented.block("flows.md", "[\n  {"))
    operations.check_template(jobs, {"url": None, "day": None})
    FlowTemplate.objects.create(name="daily", placeholders={"url": None, "day": None}, jobs=jobs)
    printed: dict[str, Any] = {}
    exec(documented.block("flows.md", "from jobs import operations as jobs\n\nflow ="), printed)
    assert [len(printed[name].jobs) for name in ("flow", "same")] == [2, 2]
    first = Job.objects.whole().get(pk=printed["flow"].jobs[0])
    assert first.payload == {"url": "https://example.com/", "day": "2030-01-31"}
