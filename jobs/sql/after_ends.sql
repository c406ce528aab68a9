-- What may start after these jobs of flows, whose ends are committed; and which of them (`queue` is NULL) left notes that
-- are to be looked at.
SELECT id, queue, due_at, is_later FROM jobs_after_ends(%(ids)s::bigint[])
