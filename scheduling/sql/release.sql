-- Make what a dead cluster had in its hands due again at once. By the queue's own index: a hand-out lies at most one
-- lease ahead.
UPDATE scheduling_due
SET next_at = clock_timestamp(), handed_by = NULL
WHERE function_id IN (
    SELECT function_id FROM scheduling_due
    WHERE kind IN ('mutation', 'action') AND next_at <= clock_timestamp() + make_interval(secs => %(lease_s)s)
      AND handed_by = %(boot)s::uuid
    FOR UPDATE SKIP LOCKED)
RETURNING function_id
