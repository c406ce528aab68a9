"""Refusals of the app: each class states its code, its HTTP status and, as its docstring, its sentence."""

from core.refusal import Refusal


class UnknownModel(Refusal):
    """No worker offers the model {model!r} now. Offered are: {offered}."""

    code = "model_not_found"
    http_status = 404


class InvalidCall(Refusal):
    """{param}: {why}."""

    code = "invalid_value"
    http_status = 400


class UnknownCall(Refusal):
    """There is no such call, or it is not yours."""

    code = "not_found"
    http_status = 404


class UnknownFile(Refusal):
    """There is no file {file!r}, or it is not yours."""

    code = "not_found"
    http_status = 404


class FileInBatch(Refusal):
    """A batch that has not ended reads this file: cancel that first, or wait for its end."""

    code = "file_in_use"
    http_status = 409


class UnknownBatch(Refusal):
    """There is no such batch, or it is not yours."""

    code = "not_found"
    http_status = 404


class BatchEnded(Refusal):
    """This batch cannot be cancelled: it is {status}."""

    code = "batch_ended"
    http_status = 409


class TooManyBatches(Refusal):
    """{limit} of your batches have yet to end: come again when one has."""

    code = "too_many_batches"
    http_status = 429


class UnknownPrevious(Refusal):
    """There is no response {response!r}, or it is not yours."""

    code = "previous_response_not_found"
    http_status = 400


class NotDeletable(Refusal):
    """Response {response!r} is the job {job}, and jobs are records: it goes with the others that ended, after
    {days} days. Cancel it if nobody needs its answer."""

    code = "not_deletable"
    http_status = 400
