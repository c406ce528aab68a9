"""Every statement of the app: `moves` change jobs, `reads` look at them, `keys` are about workers and queues."""

from jobs.queries import keys, moves, reads

__all__ = ["keys", "moves", "reads"]
