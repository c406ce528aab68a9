"""The meter of jobs, the kinds that the settings name, and what a job's page shows of its use."""

from collections.abc import Iterable

from django.conf import settings
from django.urls import reverse

from jobs import operations as jobs
from jobs.operations import Link
from jobs.operations.hooks import Viewer
from jobs.registry import COUNTING_CRONS, register_meter
from metering import operations
from metering.operations import meter

register_meter(operations.METER)
for _kind in settings.METERING["KINDS"]:  # by OpenAI's `usage` object in their results
    if meter.reader_of(_kind) is None:
        meter.declare(_kind)
COUNTING_CRONS.append(operations.COUNT_USAGE)


@jobs.register_links
def usage_of_job(job_id: int, viewer: Viewer) -> Iterable[Link]:  # noqa: ARG001  # whoever sees the job may see it
    used = operations.of_job(job_id)
    if used is not None:
        page = reverse("metering:usage")
        yield Link(label="Used", text=used.sentence, url=page)
