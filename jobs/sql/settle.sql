-- Write how attempts ended: move the jobs on, keep the attempts that did not succeed, free their slots, store results.
-- What was released or never confirmed is no attempt of the job's count; what nobody got (no outcome, and it waits again)
-- leaves no trace.
-- A job has a secret exactly while it runs. Said so, and not by its status, no partial index offers itself: that of
-- the running jobs holds the dead entries of all that ran lately.
-- Slots are freed in the order of their ids (docs/adr/0044).
-- Only workers, the positive numbers of `excluded_workers`, are excluded for a while; a requirement is for good.
-- The caller holds the rows' locks (lock_held, lock_overdue, or cancel). Returns the moment each is due again,
-- and whether an endpoint of the outbox may ask for events (listens).
WITH settlement AS MATERIALIZED (
    SELECT * FROM unnest(
        %(job)s::bigint[], %(fence)s::bigint[], %(status)s::text[], %(failures)s::smallint[], %(delay_s)s::float8[],
        %(excluded_workers)s::text[], %(outcome)s::text[], %(error)s::text[], %(result)s::text[], %(releases)s::smallint[],
        %(unconfirmed)s::smallint[]
    ) AS g (job_id, fence, status, failures, delay_s, excluded_workers, outcome, error, result, releases, unconfirmed)
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
        run_at = CASE WHEN settlement.status = 'pending' AND settlement.delay_s > 0
                      THEN statement_timestamp() + make_interval(secs => settlement.delay_s) ELSE job.run_at END,
        excluded_workers = settlement.excluded_workers::bigint[],
        excluded_until = CASE WHEN settlement.status = 'pending' AND settlement.excluded_workers ~ '[{,][0-9]'
                         THEN statement_timestamp() + make_interval(secs => settlement.delay_s + %(grace_s)s::float8) END,
        progress = CASE WHEN settlement.status = 'success' THEN 1 WHEN settlement.status = 'pending' THEN NULL ELSE job.progress END,
        detail = CASE WHEN settlement.status IN ('pending', 'success') THEN NULL ELSE job.detail END,
        lease_secret = NULL, lease_expires_at = NULL, deadline_at = NULL
    FROM settlement
    WHERE job.id = settlement.job_id AND job.fence = settlement.fence AND job.lease_secret IS NOT NULL
    RETURNING job.id, job.status, job.queue, job.run_at, job.worker_id, job.worker_name, job.claimed_at, job.attempt,
              job.last_secret
), history AS (
    INSERT INTO jobs_attempt (
        job_id, number, attempt, secret, outcome, worker_id, worker_name, claimed_at, ended_at, error)
    SELECT settlement.job_id, settlement.fence, 
           CASE WHEN settlement.outcome NOT IN ('released', 'unconfirmed') THEN settled.attempt END,
           settled.last_secret, settlement.outcome, settled.worker_id, settled.worker_name, settled.claimed_at,
           statement_timestamp(), settlement.error
    FROM settlement JOIN settled ON settled.id = settlement.job_id
    WHERE settlement.outcome IS NOT NULL
), held AS MATERIALIZED (
    SELECT slot.id FROM jobs_slot AS slot WHERE slot.job_id IN (SELECT settled.id FROM settled)
    ORDER BY slot.id FOR UPDATE OF slot
), freed AS (
    UPDATE jobs_slot SET job_id = NULL FROM held WHERE jobs_slot.id = held.id
    RETURNING jobs_slot.queue_id
), kept AS (
    UPDATE jobs_body AS body SET result = settlement.result::jsonb
    FROM settlement JOIN settled ON settled.id = settlement.job_id
    WHERE body.job_id = settlement.job_id AND settlement.result IS NOT NULL
)
SELECT settled.id, settled.status, settled.queue, settled.run_at, settled.worker_id,
       settled.run_at > statement_timestamp() AS delayed,
       settled.queue IN (SELECT queue_id FROM freed) AS freed_a_slot,
       EXISTS (SELECT FROM outbox_endpoint AS endpoint WHERE endpoint.status <> 'disabled') AS listens
FROM settled ORDER BY settled.id
