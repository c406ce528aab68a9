"""Refusals of the app: each class states its code, its HTTP status and, as its docstring, its sentence."""

from collections.abc import Mapping
from types import MappingProxyType

from core.refusal import Refusal
from ratelimits.errors import RateLimited


class CallsLimited(RateLimited):
    """Too many requests: try again in {words}."""

    limits: Mapping[str, str] = MappingProxyType({})

    @property
    def headers(self) -> Mapping[str, str]:
        return {**super().headers, **self.limits}


class UnknownModel(Refusal, code="model_not_found", http_status=404):
    """No worker offers the model {model!r} now. Offered are: {offered}."""


class InvalidCall(Refusal, code="invalid_value", http_status=400):
    """{param}: {why}."""


class UnknownCall(Refusal, code="not_found", http_status=404):
    """There is no such call, or it is not yours."""


class UnknownFile(Refusal, code="not_found", http_status=404):
    """There is no file {file!r}, or it is not yours."""


class FileInBatch(Refusal, code="file_in_use", http_status=409):
    """A batch that has not ended reads this file: cancel that first, or wait for its end."""


class UnknownBatch(Refusal, code="not_found", http_status=404):
    """There is no such batch, or it is not yours."""


class BatchEnded(Refusal, code="batch_ended", http_status=409):
    """This batch cannot be cancelled: it is {status}."""


class TooManyBatches(Refusal, code="too_many_batches", http_status=429):
    """{limit} of your batches have yet to end: come again when one has."""


class UnknownPrevious(Refusal, code="previous_response_not_found", http_status=400):
    """There is no response {response!r}, or it is not yours."""


class NotDeletable(Refusal, code="not_deletable", http_status=400):
    """Response {response!r} is the job {job}, and jobs are records: it goes with the others that ended, after
    {days} days. Cancel it if nobody needs its answer."""


class BrokenAnswer(Refusal, code="broken_answer", http_status=502):
    """Job {job} ended with what is no answer to its call."""

    headers = MappingProxyType({"x-should-retry": "false"})  # a repeat would be a second job


class CallRefused(Refusal, code="call_refused", http_status=400):
    """This call is refused here."""


class HookFailed(Refusal, code="hook_failed", http_status=503):
    """{hook} did not decide about this call in time, or failed: nothing passes without it."""
