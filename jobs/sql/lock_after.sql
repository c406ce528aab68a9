-- Lock the records of jobs that new ones are to come after, in the order of their ids, so that they come to one flow alone
-- and none is deleted meanwhile. The caller holds the locks of those that live. `later`: how many come after each already.
SELECT job.id, job.flow_id, coalesce(step.depth, 0) AS depth, (
           SELECT count(*) FROM (
               SELECT FROM jobs_edge AS edge WHERE edge.after_id = job.id LIMIT %(most)s::bigint) AS known) AS later
FROM (SELECT unnest(%(ids)s::bigint[]) AS id ORDER BY 1) AS given
CROSS JOIN LATERAL (SELECT one.id, one.flow_id FROM jobs_job AS one WHERE one.id = given.id FOR NO KEY UPDATE) AS job
LEFT JOIN LATERAL (SELECT one.depth FROM jobs_step AS one WHERE one.job_id = job.id OFFSET 0) AS step ON true
