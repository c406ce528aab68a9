-- Let these locked jobs start from their moment on; their lanes wake by a trigger, as what expires follows the record.
WITH record AS (
    UPDATE jobs_job SET expires_at = (%(due_at)s::timestamptz[])[array_position(%(ids)s::bigint[], id)]
        + make_interval(secs => (%(expires_s)s::float8[])[array_position(%(ids)s::bigint[], id)])
    WHERE id = ANY (ARRAY(
        SELECT each.id FROM unnest(%(ids)s::bigint[], %(expires_s)s::float8[]) AS each (id, expires_s)
        WHERE each.expires_s IS NOT NULL))
)
UPDATE jobs_live SET run_at = (%(due_at)s::timestamptz[])[array_position(%(ids)s::bigint[], job_id)]
WHERE ctid = ANY (ARRAY(
    SELECT live.tid FROM unnest(%(ids)s::bigint[]) AS given (id) CROSS JOIN LATERAL (
        SELECT one.ctid AS tid FROM jobs_live AS one WHERE one.job_id = given.id OFFSET 0) AS live))
