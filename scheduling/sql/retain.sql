-- Forget functions that ended long ago, a batch at a time. SKIP LOCKED: two who clean up at once do not wait.
-- The ids go on as an array, which is made once: a list to be in may be made anew for each row, past the limit.
DELETE FROM scheduling_scheduledfunction
WHERE id = ANY (ARRAY(
    SELECT id FROM scheduling_scheduledfunction
    WHERE ended_at < clock_timestamp() - make_interval(secs => %(age_s)s)
    ORDER BY ended_at, id LIMIT %(limit)s OFFSET %(skip)s
    FOR UPDATE SKIP LOCKED))
RETURNING id
