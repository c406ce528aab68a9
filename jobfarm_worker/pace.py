"""How long a worker may leave the farm without a word: bounds on its pauses, and on answers that do not come.

A lease lasts three heartbeat intervals. A connection that swallows everything is given up after half an interval, and
the pause before the next try is at most a quarter of one: so a worker that holds jobs reaches the farm again within one
interval, a third of its lease, once the network lets it. (With heartbeats of less than 4 s the shortest patience
takes longer than that.)
"""

LONGEST_ANSWER_S = 20.0
SHORTEST_ANSWER_S = 2.0  # a busy farm is slower than its heartbeats are short
SHORTEST_PAUSE_S = 0.05


def answer_s(heartbeat_s: float) -> float:
    """Seconds to wait for the answer to a call, from a farm with this heartbeat interval."""
    return min(LONGEST_ANSWER_S, max(SHORTEST_ANSWER_S, heartbeat_s / 2))


def pause_s(heartbeat_s: float) -> float:
    """The longest pause, in seconds, between two tries of a worker that holds such a job."""
    return max(SHORTEST_PAUSE_S, heartbeat_s / 4)
