-- How far a chain of batches is, each scheduled by the one before: what they returned, added up, and the newest of them,
-- which says whether there is more to do.
WITH RECURSIVE chain AS (
    SELECT id, status, result, error, ended_at FROM scheduling_scheduledfunction
    WHERE id = %(first)s AND function = %(function)s::text
  UNION ALL
    SELECT next.id, next.status, next.result, next.error, next.ended_at
    FROM chain JOIN scheduling_scheduledfunction AS next
      ON next.parent_id = chain.id AND next.function = %(function)s::text AND next.id > chain.id  -- so it has an end
)
SELECT newest.id, newest.status, newest.error, newest.ended_at,
       (SELECT coalesce(sum((result #>> '{}')::bigint), 0)::bigint FROM chain WHERE status = 'success') AS handled
FROM chain AS newest ORDER BY newest.id DESC LIMIT 1
