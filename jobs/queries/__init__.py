"""Every statement of the app.

`submits`, `moves`, `keys` (workers, queues, kinds) and `bulks` write what jobs live by, `usage` and `rollups` what is
counted; `reads` are for everybody, `lists`, `pages`, `fleet`, `gauges` for pages, `reports` for what attempts hand in.
"""

from jobs.queries import keys, moves, reads

__all__ = ["keys", "moves", "reads"]
