-- Forget functions that ended long ago, a batch at a time. SKIP LOCKED: two who clean up at once do not wait.
DELETE FROM scheduling_scheduledfunction
WHERE id IN (
    SELECT id FROM scheduling_scheduledfunction
    WHERE ended_at < clock_timestamp() - make_interval(secs => %(age_s)s)
    ORDER BY ended_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED)
RETURNING id
