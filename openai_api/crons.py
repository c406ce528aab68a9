"""What is done regularly for files and batches. Files' bytes follow with the uploads that no job uses."""

from django.conf import settings

from openai_api.domain.batches import LIVE
from openai_api.models import Batch, CachedCall, File, HookDecision
from openai_api.operations import earlier, steps
from scheduling.operations import declare, interval, keep, prune

declare("mend batches", interval(minutes=5), steps.mend)
_LONGEST_CALL_DAYS = 7  # a decision is written before its job ends, and not kept for less long
_READ = Batch.objects.filter(status__in=sorted(LIVE), input_file__isnull=False).values("input_file_id")
keep("OpenAI files", File.objects.exclude(pk__in=_READ), by="expires_at", size=200)
keep("OpenAI batches", Batch.objects.all(), by="ended_at", days=lambda: settings.OPENAI["FILE_DAYS"], size=200)
prune("beginnings of calls", earlier.forget, size=5000)
keep("answers for the same call", CachedCall.objects.all(), by="expires_at")
keep(
    "decisions of hooks", HookDecision.objects.all(), by="written_at",
    days=lambda: settings.JOBFARM["RETENTION_DAYS"] + _LONGEST_CALL_DAYS,
)  # fmt: skip
