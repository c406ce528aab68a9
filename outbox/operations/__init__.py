"""What can be done with the outbox. Each function is one use case, in one transaction unless its docstring differs."""

from outbox.domain.addresses import Answer, host_of
from outbox.domain.messages import PATTERNS, TYPES, Filter, Wanted, register_scheme
from outbox.errors import BadUrl, OutboxError
from outbox.operations.endpoints import (
    OPERATE,
    Health,
    call_back,
    callback,
    change,
    create,
    delete,
    disable,
    find,
    find_message,
    forget_callbacks,
    health,
    is_operator,
    may_operate,
    messages_visible_to,
    operable,
    pause,
    resume,
    rotate,
    sees_all,
    send_test,
    visible_to,
)
from outbox.operations.record import NO_RESULT, TOO_LARGE, NewEvent, record, record_all
from outbox.operations.replays import MOST_COUNTED, count_matching, find_replay, replay, replay_matching, stop_replay
from outbox.operations.sender import Background, send
from outbox.queries import listens
