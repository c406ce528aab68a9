-- Ids for so many new jobs, in ascending order, the moment at which they are submitted, and their lanes. Each is awake from
-- the first moment that a job names, or from now if one is due at once. The COPYs follow in the same transaction.
SELECT ARRAY(SELECT nextval('jobs_job_id_seq') FROM generate_series(1, %(count)s)) AS ids, statement_timestamp() AS now,
       ARRAY(SELECT jobs_enter(queue, priority, owner_id, group_id, requirement_id, '{}', least(due, CASE
                        WHEN is_now THEN statement_timestamp() - make_interval(secs => %(count)s / 1e6::float8) END), key_id)
             FROM unnest(%(queue)s::text[], %(priority)s::smallint[], %(owner_id)s::integer[], %(group_id)s::integer[],
                         %(requirement_id)s::integer[], %(key_id)s::integer[], %(due)s::timestamptz[], %(is_now)s::boolean[])
                  WITH ORDINALITY AS lane (queue, priority, owner_id, group_id, requirement_id, key_id, due, is_now, place)
             ORDER BY place) AS lanes
