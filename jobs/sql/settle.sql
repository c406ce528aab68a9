-- Write how attempts ended: move the jobs on, keep the attempts that did not succeed, store results.
-- What was released or never confirmed is no attempt of the job's count; what nobody got (no outcome, and it waits again)
-- leaves no trace.
-- A job has a secret exactly while it runs. Said so, and not by its status, no partial index offers itself: that of
-- the running jobs holds the dead entries of all that ran lately.
-- What waits again does so in the lane of what its row says and of the workers that it is to avoid (settlement.avoid),
-- from now on: so long have they to leave it to others. What nobody got keeps its place.
-- The caller holds the rows' locks (lock_held, lock_overdue, or cancel). Returns the moment each is due again,
-- whether its queue has a ceiling under which there is room now, and whether an endpoint of the outbox may ask for events
-- (listens).
WITH settlement AS MATERIALIZED (
    SELECT * FROM unnest(
        %(job)s::bigint[], %(fence)s::bigint[], %(status)s::text[], %(failures)s::smallint[], %(delay_s)s::float8[],
        %(avoid)s::text[], %(outcome)s::text[], %(error)s::text[], %(result)s::text[], %(releases)s::smallint[],
        %(unconfirmed)s::smallint[]
    ) AS g (job_id, fence, status, failures, delay_s, avoid, outcome, error, result, releases, unconfirmed)
), settled AS (
    UPDATE jobs_job AS job
    SET status = settlement.status,
        failures = settlement.failures,
        releases = settlement.releases,
        unconfirmed = settlement.unconfirmed,
        attempt = CASE WHEN settlement.status = 'pending' THEN settlement.failures ELSE job.attempt END,
        confirmed_fence = CASE WHEN settlement.outcome = 'unconfirmed' OR settlement.outcome IS NULL AND settlement.status = 'pending'
                          THEN job.confirmed_fence ELSE job.fence END,
        last_secret = job.lease_secret,
        ended_at = CASE WHEN settlement.status = 'pending' THEN NULL ELSE statement_timestamp() END,
        run_at = CASE WHEN settlement.status = 'pending' AND (settlement.delay_s > 0 OR settlement.avoid <> '{}' AND settlement.outcome IS NOT NULL)
                      THEN statement_timestamp() + make_interval(secs => settlement.delay_s) ELSE job.run_at END,
        lane_id = CASE WHEN settlement.status <> 'pending' THEN job.lane_id ELSE jobs_enter(
            job.queue, job.priority, job.owner_id, job.group_id, job.requirement_id, settlement.avoid::bigint[],
            CASE WHEN settlement.delay_s > 0 OR settlement.avoid <> '{}' AND settlement.outcome IS NOT NULL
                 THEN statement_timestamp() + make_interval(secs => settlement.delay_s) ELSE job.run_at END) END,
        progress = CASE WHEN settlement.status = 'success' THEN 1 WHEN settlement.status = 'pending' THEN NULL ELSE job.progress END,
        detail = CASE WHEN settlement.status IN ('pending', 'success') THEN NULL ELSE job.detail END,
        lease_secret = NULL, lease_expires_at = NULL, deadline_at = NULL
    FROM settlement
    WHERE job.id = settlement.job_id AND job.fence = settlement.fence AND job.lease_secret IS NOT NULL
    RETURNING job.id, job.status, job.queue, job.run_at, job.worker_id, job.worker_name, job.claimed_at, job.attempt,
              job.last_secret, job.counted_in, settlement.avoid <> '{}' AS avoids
), history AS (
    INSERT INTO jobs_attempt (
        job_id, number, attempt, secret, outcome, worker_id, worker_name, claimed_at, ended_at, error)
    SELECT settlement.job_id, settlement.fence, 
           CASE WHEN settlement.outcome NOT IN ('released', 'unconfirmed') THEN settled.attempt END,
           settled.last_secret, settlement.outcome, settled.worker_id, settled.worker_name, settled.claimed_at,
           statement_timestamp(), settlement.error
    FROM settlement JOIN settled ON settled.id = settlement.job_id
    WHERE settlement.outcome IS NOT NULL
), kept AS (
    UPDATE jobs_body AS body SET result = settlement.result::jsonb
    FROM settlement JOIN settled ON settled.id = settlement.job_id
    WHERE body.job_id = settlement.job_id AND settlement.result IS NOT NULL
)
SELECT settled.id, settled.status, settled.queue, settled.run_at, settled.worker_id,
       settled.run_at > statement_timestamp() AS delayed,
       settled.counted_in IS NOT NULL AS made_room, settled.avoids,
       EXISTS (SELECT FROM outbox_endpoint AS endpoint WHERE endpoint.status <> 'disabled') AS listens
FROM settled ORDER BY settled.id
