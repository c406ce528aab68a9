-- What these claimed jobs come after, with their results as far as all of them have `most` bytes together; what is longer,
-- and whatever stands behind it, comes without.
SELECT edge.job_id, edge.after_id AS id, coalesce(step.name, '') AS name, outcome.kind, outcome.status,
       CASE WHEN sum(octet_length(outcome.result)) OVER (PARTITION BY edge.job_id ORDER BY edge.after_id) <= %(most)s::bigint
            THEN outcome.result END AS result, outcome.result IS NOT NULL AS has_result
FROM unnest(%(ids)s::bigint[]) AS given (id)
CROSS JOIN LATERAL (SELECT one.job_id, one.after_id FROM jobs_edge AS one WHERE one.job_id = given.id OFFSET 0) AS edge
CROSS JOIN LATERAL (
    SELECT one.kind, one.status, one.result::text AS result FROM jobs_outcome AS one WHERE one.job_id = edge.after_id OFFSET 0
) AS outcome
LEFT JOIN LATERAL (SELECT one.name FROM jobs_step AS one WHERE one.job_id = edge.after_id OFFSET 0) AS step ON true
ORDER BY edge.job_id, edge.after_id
