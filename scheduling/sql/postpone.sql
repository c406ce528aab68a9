-- Let what could not be done wait before its next run, and note why; with `patience_s` not what has been due for so long,
-- and the longer the longer it has waited: a hundred thousand such would keep every cluster busy. By place, and only if
-- nobody has it locked: what another cluster runs right now is its.
UPDATE scheduling_due
SET next_at = clock_timestamp() + greatest(
        make_interval(secs => %(delay_s)s::float8),
        CASE WHEN %(patience_s)s::float8 > 0 THEN least((clock_timestamp() - run_at) / 2, interval '5 minutes') END),
    collisions = collisions + %(collisions)s::int,
    colliding_statement = coalesce(%(colliding_statement)s::text, colliding_statement)
WHERE ctid = (
    SELECT ctid FROM scheduling_due
    WHERE ctid = %(due_pointer)s::tid AND function_id = %(id)s::bigint
      AND (%(patience_s)s::float8 IS NULL OR run_at > clock_timestamp() - make_interval(secs => %(patience_s)s::float8))
    FOR UPDATE SKIP LOCKED)
RETURNING function_id
