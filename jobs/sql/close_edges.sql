-- These jobs of flows end in this transaction: what may start after them, and (without a `queue`) which of them left notes.
SELECT id, queue, due_at, is_later FROM jobs_close_edges(%(ids)s::bigint[], false)
