from core.refusal import Refusal


class SchedulingError(Refusal):
    """The function cannot be scheduled."""


class UnknownFunction(SchedulingError, code="unknown_function"):
    """{function} is not a function that can be scheduled: decorate it with @mutation or @action, in a module
    that is imported when the site starts."""


class BrokenFunction(UnknownFunction, code="broken_function"):
    """{function} cannot be scheduled: importing it raised {why}."""


class NotAFunction(SchedulingError, code="not_a_function"):
    """{function} cannot be decorated: {why}."""


class BadArguments(SchedulingError, code="bad_arguments"):
    """{function} cannot be called like that: {why}."""


class NotJson(SchedulingError, code="not_json"):
    """The {part} of {function} cannot be stored as JSON: {why}."""


class BadQueue(SchedulingError, code="bad_queue"):
    """This is not a queue or priority: {why}."""


class BadMoment(SchedulingError, code="bad_moment"):
    """A function cannot run at this time: {why}."""


class BadSchedule(SchedulingError, code="bad_schedule"):
    """This is not a schedule: {why}."""


class DuplicateCron(SchedulingError, code="duplicate_cron"):
    """The cron {name!r} is declared twice."""


class CronExists(SchedulingError, code="cron_exists", http_status=409):
    """There is a cron {name!r} already."""


class NotEditable(SchedulingError, code="not_editable", http_status=409):
    """The cron {name!r} is the farm's own: it can be paused, but not changed."""


class NotFound(SchedulingError, code="not_found", http_status=404):
    """There is no such {resource}."""


class NotEnded(SchedulingError, code="not_ended", http_status=409):
    """The function has not ended yet, so it cannot be run again as a new one."""


class OutsideConnection(SchedulingError, code="outside_connection"):
    """The mutation {function} opens a connection to {address}, and no rollback takes back what is sent there while a
    collision sends it again: do this in an @action, and schedule that from the mutation with run_after."""


class OutsideProcess(SchedulingError, code="outside_process"):
    """The mutation {function} starts a process ({command}), which no rollback ends and a collision starts again: do
    this in an @action, and schedule that from the mutation with run_after."""


class OutsideThread(SchedulingError, code="outside_thread"):
    """The mutation {function} gives work to another thread ({work}), which is no part of its transaction: do this in
    the mutation itself, or in an @action that the mutation schedules with run_after."""


class SecondConnection(SchedulingError, code="second_connection"):
    """The mutation {function} uses a database connection beside its own ({database}), whose writes stay when the
    mutation is rolled back: use the alias "default", or do this in an @action that the mutation schedules with
    run_after."""


class WriteOutsideMutation(SchedulingError, code="write_outside_mutation"):
    """The action {function} writes to the database past its mutations ({statement}), and nothing takes that back when
    it breaks halfway: put what belongs together into a @mutation and call that from the action, or schedule it with
    run_after."""


class ActionTimedOut(SchedulingError, code="action_timed_out"):
    """The action {function} ran longer than its timeout of {timeout_s} s."""


class Canceled(SchedulingError, code="canceled"):
    """The function was canceled."""


class OutcomeUnknown(SchedulingError, code="outcome_unknown"):
    """The process that ran this action died, so nobody knows how far it got."""


class KillsItsProcess(SchedulingError, code="kills_its_process"):
    """The process that ran this function died {deaths} times, of an action before its start: it may lack memory, or a
    C library may be faulty. Fix the function, then run it again."""


class KeepsColliding(SchedulingError, code="keeps_colliding"):
    """This mutation was run {collisions} times and collided with another transaction each time, last at: {statement}.
    Let it touch fewer rows, find them by an index, or change what others change all the time in a mutation of its
    own; then run it again."""


class RowMoved(SchedulingError, code="row_moved"):
    """The row of this scheduled function was changed while it ran, by itself or by a rewrite of the table."""


class SomeFailed(SchedulingError, code="some_failed"):
    """A part of it failed, and the rest was done. {reasons}"""
