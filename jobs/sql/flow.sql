-- The places of a flow, of those that the viewer may see (0: everybody's), with the newest job of each; `before`: the places
-- that it comes after; `awaits`: the signal that it waits for.
SELECT job.*, ARRAY(
           SELECT coalesce(step.place_id, edge.after_id)
           FROM jobs_edge AS edge LEFT JOIN jobs_step AS step ON step.job_id = edge.after_id
           WHERE edge.job_id = job.id ORDER BY edge.after_id) AS before
FROM (
    SELECT DISTINCT ON (step.place_id) job.id, step.place_id, step.name, job.kind, step.depth, job.created_at, job.retry_of_id,
           step.canceled_for_id, outcome.ended_at, coalesce(live.claimed_at, outcome.claimed_at) AS claimed_at,
           coalesce(live.progress, outcome.progress) AS progress, coalesce(live.fence, outcome.fence) AS claims,
           wait.signal AS awaits,
           coalesce(outcome.status, CASE WHEN live.lease_secret IS NULL THEN 'pending' ELSE 'in_progress' END) AS status
    FROM jobs_job AS job JOIN jobs_step AS step ON step.job_id = job.id
    LEFT JOIN jobs_live AS live ON live.job_id = job.id LEFT JOIN jobs_outcome AS outcome ON outcome.job_id = job.id
    LEFT JOIN jobs_suspension AS wait ON wait.job_id = live.job_id AND wait.signal <> '' AND wait.taken_id IS NULL
         AND live.run_at = %(behind)s::timestamptz AND live.lease_secret IS NULL
    WHERE job.flow_id = %(flow)s::bigint AND (
        %(viewer)s::integer = 0 OR job.owner_id = %(viewer)s::integer OR job.group_id IN (
            SELECT membership.group_id FROM auth_user_groups AS membership WHERE membership.user_id = %(viewer)s::integer))
    ORDER BY step.place_id, job.id DESC
) AS job
ORDER BY job.depth, job.place_id
