-- Lock notes of jobs that ended in flows and whose followers nobody has looked at, but for these and those that somebody
-- else looks at now.
SELECT DISTINCT ON (note.job_id) note.job_id AS id, coalesce(job.kind, '') AS kind
FROM (SELECT one.job_id FROM jobs_endedstep AS one WHERE one.job_id <> ALL (%(but_for)s::bigint[])
      ORDER BY one.id LIMIT %(limit)s::bigint FOR UPDATE SKIP LOCKED) AS note
LEFT JOIN LATERAL (SELECT one.kind FROM jobs_job AS one WHERE one.id = note.job_id OFFSET 0) AS job ON true
