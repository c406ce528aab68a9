-- What several statements that read ask in the same words. The planner puts the text of these functions in their place:
-- they are plain SQL, stable, and set nothing. Migration 0002 runs this file.

-- The first jobs of a lane that a worker might begin, due from `since` until `until`, `most` at most, with their `place`.
CREATE FUNCTION jobs_due(lane integer, since timestamptz, until timestamptz, most bigint)
RETURNS TABLE (job_id bigint, run_at timestamptz, owner_id integer, group_id integer, place bigint)
LANGUAGE sql STABLE AS $$
    SELECT job.job_id, job.run_at, job.owner_id, job.group_id, row_number() OVER (ORDER BY job.run_at, job.job_id)
    FROM jobs_live AS job
    WHERE job.lease_secret IS NULL AND job.lane_id = lane AND job.run_at >= since AND job.run_at <= until
      AND (job.expires_at IS NULL OR job.expires_at > statement_timestamp() OR job.confirmed_fence > 0)
    ORDER BY job.run_at, job.job_id LIMIT most
$$;

-- Workers whose keys open something and whose owners may log in, that were seen lately, with the groups that they serve.
CREATE FUNCTION jobs_live_workers(alive_s float8)
RETURNS TABLE (id bigint, name varchar, owner_id integer, groups integer[], queues varchar[], steals varchar[],
               polled varchar[], satisfies integer[], is_drained boolean)
LANGUAGE sql STABLE AS $$
    SELECT worker.id, worker.name, worker.owner_id,
           ARRAY(SELECT membership.group_id FROM auth_user_groups AS membership WHERE membership.user_id = worker.owner_id),
           worker.queues, worker.steals, worker.polled_queues, worker.satisfies, worker.drained_at IS NOT NULL
    FROM jobs_worker AS worker LEFT JOIN auth_user AS person ON person.id = worker.owner_id
    WHERE worker.revoked_at IS NULL AND coalesce(person.is_active, true)
      AND worker.last_seen_at > statement_timestamp() - make_interval(secs => alive_s)
$$;

-- The worker, if its row is the version that somebody read (docs/adr/0115).
CREATE FUNCTION jobs_as_read(reader bigint, version xid) RETURNS TABLE (id bigint) LANGUAGE sql STABLE AS $$
    SELECT worker.id FROM jobs_worker AS worker LEFT JOIN auth_user AS person ON person.id = worker.owner_id
    WHERE worker.id = reader AND worker.xmin = version AND coalesce(person.is_active, true)
$$;

-- Reverse
DROP FUNCTION jobs_as_read(bigint, xid);
DROP FUNCTION jobs_live_workers(float8);
DROP FUNCTION jobs_due(integer, timestamptz, timestamptz, bigint);
