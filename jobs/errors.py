"""Refusals of the app. A class's docstring is its message, `code` is the machine's word for it."""

from typing import Any, ClassVar


class JobsError(Exception):
    """The request cannot be carried out."""

    code: ClassVar[str] = "refused"

    def __init__(self, **numbers: Any) -> None:
        self.numbers = numbers
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The sentence for people: the class's docstring, with this refusal's numbers filled in."""
        return (type(self).__doc__ or "").strip().format(**self.numbers)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["numbers"][name]
        except KeyError:
            raise AttributeError(name) from None


class LeaseLost(JobsError):
    """This lease no longer speaks for the job: it ended, ran out, was canceled, or was given to another worker."""

    code = "lease_lost"


class OutputGap(JobsError):
    """Output must be sent in order: the next piece of this attempt is number {next_seq}."""

    code = "output_gap"


class UnknownKind(JobsError):
    """No kind of job is called {kind!r}: declare it in code, or make it with `manage.py create_kind`."""

    code = "unknown_kind"


class UnknownQueue(JobsError):
    """There is no queue {queue!r}: a queue exists once a kind or a worker names it."""

    code = "unknown_queue"


class QueueNotAllowed(JobsError):
    """This worker may not take jobs from the queue {queue!r}."""

    code = "queue_not_allowed"


class InvalidJson(JobsError):
    """The {what} cannot be stored: {why}."""

    code = "invalid_json"


class PayloadTooLarge(JobsError):
    """The {what} has {size} bytes; at most {limit} are taken."""

    code = "too_large"


class QuotaReached(JobsError):
    """One {of} may hand in {quota} {what}: {used} are there, and there is no room for {more} more."""

    code = "quota_reached"


class InvalidValue(JobsError):
    """{field}: {why}."""

    code = "invalid"


class Duplicate(JobsError):
    """A job of this kind with the same unique_key has not ended yet."""

    code = "duplicate"


class NotFound(JobsError):
    """There is no such job."""

    code = "not_found"


class NotEnded(JobsError):
    """The job has not ended yet, so it cannot be tried again as a new one."""

    code = "not_ended"


class NotAllowed(JobsError):
    """You may look at this job, but only its owner or an operator may do that."""

    code = "forbidden"


class PriorityNotAllowed(JobsError):
    """The priority {priority} takes the right {right}: without it {what} may have {highest} at most."""

    code = "forbidden"


class QueueChoiceNotAllowed(JobsError):
    """The queue {queue} takes the right {right}: without it {what} goes into: {allowed}."""

    code = "forbidden"


class NotAMember(JobsError):
    """You are not a member of this group, so your jobs cannot be shared with it."""

    code = "not_a_member"


class InvalidKey(JobsError):
    """This worker key is not known, or was revoked."""

    code = "unauthorized"


class InvalidName(JobsError):
    """{name!r} cannot name a file: letters, digits, dots, dashes and underscores, at most 100, no leading dot."""

    code = "invalid_name"


class LinkRanOut(JobsError):
    """This link shows nothing any more: it was good for a few minutes. Whoever sent it can make another."""

    code = "link_ran_out"
