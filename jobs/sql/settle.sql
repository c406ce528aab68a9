-- Write how attempts ended: move the jobs on, keep the attempts that did not succeed, store results. The caller holds the
-- rows' locks. What was released or never confirmed is no attempt of the job's count; what nobody got (no outcome, and it
-- waits again) leaves no trace and keeps its place. What is suspended is due at `run_at`, or keeps its place too. What else waits again does so in the lane of its row and of the workers
-- that it is to avoid (settlement.avoid), from now on: so long have they to leave it to others.
-- Returns when each is due again, whether its queue has room under a ceiling now, and whether an endpoint of the outbox may
-- ask for events (listens).
WITH held AS MATERIALIZED (
    SELECT live.*, given.status AS status, given.failures AS failed, given.avoid::bigint[] AS avoid, given.outcome, given.error,
           given.result, given.releases AS released, given.unconfirmed AS unheard,
           CASE WHEN given.outcome = 'unconfirmed' OR given.outcome IS NULL AND given.status = 'pending'
                THEN live.confirmed_fence ELSE live.fence END AS confirmed,
           CASE WHEN given.status = 'pending' THEN given.failures ELSE live.failures + 1 END AS attempt,
           CASE WHEN given.run_at IS NOT NULL THEN given.run_at
                WHEN given.status = 'pending'
                     AND (given.delay_s > 0 OR given.avoid <> '{}' AND given.outcome IS NOT NULL)
                THEN statement_timestamp() + make_interval(secs => given.delay_s) ELSE live.run_at END AS due_at
    FROM unnest(
        %(job)s::bigint[], %(fence)s::bigint[], %(status)s::text[], %(failures)s::smallint[], %(delay_s)s::float8[],
        %(avoid)s::text[], %(outcome)s::text[], %(error)s::text[], %(result)s::text[], %(releases)s::smallint[],
        %(unconfirmed)s::smallint[], %(run_at)s::timestamptz[]
    ) AS given (job_id, fence, status, failures, delay_s, avoid, outcome, error, result, releases, unconfirmed, run_at)
    CROSS JOIN LATERAL (
        SELECT one.ctid AS tid, one.* FROM jobs_live AS one WHERE one.job_id = given.job_id FOR UPDATE) AS live
    WHERE live.fence = given.fence AND live.lease_secret IS NOT NULL
), gone AS (
    DELETE FROM jobs_live WHERE ctid = ANY (ARRAY(SELECT tid FROM held WHERE status <> 'pending'))
), ended AS (
    INSERT INTO jobs_outcome (
        job_id, status, ended_at, kind, queue, run_at, claimed_at, worker_id, worker_name, attempt, failures, fence,
        confirmed_fence, last_secret, progress, detail, next_seq, output_bytes, earlier_output_bytes, result)
    SELECT job_id, status, statement_timestamp(), kind, queue, run_at, claimed_at, worker_id, worker_name, attempt, failed,
           fence, confirmed, lease_secret, CASE WHEN status = 'success' THEN 1 ELSE progress END,
           CASE WHEN status <> 'success' THEN detail END, next_seq, output_bytes, earlier_output_bytes, result::jsonb
    FROM held WHERE status <> 'pending'
), again AS (
    UPDATE jobs_live AS live
    SET failures = held.failed, releases = held.released, unconfirmed = held.unheard, confirmed_fence = held.confirmed,
        run_at = held.due_at, progress = NULL, detail = NULL, counted_in = NULL,
        lane_id = jobs_enter(live.queue, lane.priority, live.owner_id, live.group_id, live.requirement_id, held.avoid,
                             held.due_at, live.key_id),
        lease_secret = NULL, lease_expires_at = NULL, deadline_at = NULL
    FROM held CROSS JOIN LATERAL (
        SELECT job.priority FROM jobs_job AS job WHERE job.id = held.job_id OFFSET 0) AS lane
    WHERE held.status = 'pending' AND live.job_id = held.job_id
), history AS (
    INSERT INTO jobs_attempt (
        job_id, number, attempt, secret, outcome, worker_id, worker_name, claimed_at, ended_at, error)
    SELECT job_id, fence, CASE WHEN outcome NOT IN ('released', 'unconfirmed', 'suspended') THEN attempt END, lease_secret, outcome,
           worker_id, worker_name, claimed_at, statement_timestamp(), error
    FROM held WHERE outcome IS NOT NULL
)
SELECT job_id AS id, status, queue, due_at AS run_at, worker_id, due_at > statement_timestamp() AS delayed,
       counted_in IS NOT NULL AS made_room, has_key AND status <> 'pending' AS has_key, in_flow AND status <> 'pending' AS in_flow, avoid <> '{}' AS avoids,
       EXISTS (SELECT FROM outbox_endpoint AS endpoint WHERE endpoint.status <> 'disabled') AS listens
FROM held ORDER BY job_id
