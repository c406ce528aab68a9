"""Refusals of the app: each class states its code, its HTTP status and, as its docstring, its sentence."""

from core.refusal import Refusal


class SchedulingError(Refusal):
    """The function cannot be scheduled."""


class UnknownFunction(SchedulingError):
    """{function} is not a function that can be scheduled: decorate it with @mutation or @action, in a module
    that is imported when the site starts."""

    code = "unknown_function"


class BrokenFunction(UnknownFunction):
    """{function} cannot be scheduled: importing it raised {why}."""

    code = "broken_function"


class NotAFunction(SchedulingError):
    """{function} cannot be decorated: {why}."""

    code = "not_a_function"


class BadArguments(SchedulingError):
    """{function} cannot be called like that: {why}."""

    code = "bad_arguments"


class NotJson(SchedulingError):
    """The {part} of {function} cannot be stored as JSON: {why}."""

    code = "not_json"


class BadQueue(SchedulingError):
    """This is not a queue or priority: {why}."""

    code = "bad_queue"


class BadMoment(SchedulingError):
    """A function cannot run at this time: {why}."""

    code = "bad_moment"


class BadSchedule(SchedulingError):
    """This is not a schedule: {why}."""

    code = "bad_schedule"


class DuplicateCron(SchedulingError):
    """The cron {name!r} is declared twice."""

    code = "duplicate_cron"


class CronExists(SchedulingError):
    """There is a cron {name!r} already."""

    code = "cron_exists"
    http_status = 409


class NotEditable(SchedulingError):
    """The cron {name!r} is the farm's own: it can be paused, but not changed."""

    code = "not_editable"
    http_status = 409


class NotFound(SchedulingError):
    """There is no such {resource}."""

    code = "not_found"
    http_status = 404


class NotEnded(SchedulingError):
    """The function has not ended yet, so it cannot be run again as a new one."""

    code = "not_ended"
    http_status = 409


class OutsideConnection(SchedulingError):
    """The mutation {function} opens a connection to {address}, and no rollback takes back what is sent there while a
    collision sends it again: do this in an @action, and schedule that from the mutation with run_after."""

    code = "outside_connection"


class OutsideProcess(SchedulingError):
    """The mutation {function} starts a process ({command}), which no rollback ends and a collision starts again: do
    this in an @action, and schedule that from the mutation with run_after."""

    code = "outside_process"


class OutsideThread(SchedulingError):
    """The mutation {function} gives work to another thread ({work}), which is no part of its transaction: do this in
    the mutation itself, or in an @action that the mutation schedules with run_after."""

    code = "outside_thread"


class SecondConnection(SchedulingError):
    """The mutation {function} uses a database connection beside its own ({database}), whose writes stay when the
    mutation is rolled back: use the alias "default", or do this in an @action that the mutation schedules with
    run_after."""

    code = "second_connection"


class WriteOutsideMutation(SchedulingError):
    """The action {function} writes to the database past its mutations ({statement}), and nothing takes that back when
    it breaks halfway: put what belongs together into a @mutation and call that from the action, or schedule it with
    run_after."""

    code = "write_outside_mutation"


class ActionTimedOut(SchedulingError):
    """The action {function} ran longer than its timeout of {timeout_s} s."""

    code = "action_timed_out"


class Canceled(SchedulingError):
    """The function was canceled."""

    code = "canceled"


class OutcomeUnknown(SchedulingError):
    """The process that ran this action died, so nobody knows how far it got."""

    code = "outcome_unknown"


class KillsItsProcess(SchedulingError):
    """The process that ran this mutation died {deaths} times, each time while it ran: it may lack memory, or a
    C library may be faulty. Fix the function, then run it again."""

    code = "kills_its_process"


class KeepsColliding(SchedulingError):
    """This mutation was run {collisions} times and collided with another transaction each time, last at: {statement}.
    Let it touch fewer rows, find them by an index, or change what others change all the time in a mutation of its
    own; then run it again."""

    code = "keeps_colliding"


class RowMoved(SchedulingError):
    """The row of this scheduled function was changed while it ran, by itself or by a rewrite of the table."""

    code = "row_moved"


class SomeFailed(SchedulingError):
    """A part of it failed, and the rest was done. {reasons}"""

    code = "some_failed"
