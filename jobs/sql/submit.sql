-- Insert jobs with their payloads in one statement and return what only the database knows, in the order given.
-- Twins (same owner, kind and unique_key, not ended) are left out. Keys go in ordered by what makes a twin: two bulk
-- submits with the same keys in opposite orders would otherwise wait for one another in a circle.
-- Jobs that are due at once are due a microsecond after one another, in the order given: the marks of lanes move by run_at
-- alone (docs/adr/0112), and ten thousand with one moment would be one step. Each lane is entered once.
-- `limit_wait_s`: for how long the tokens it reserved of its kind's limit have yet to come in; it is not due before.
WITH requested AS (
    SELECT *, statement_timestamp() + make_interval(secs => limit_wait_s) AS limit_until
    FROM unnest({arrays}) WITH ORDINALITY AS r ({stored}, place)
    ORDER BY place
), new_job AS MATERIALIZED (
    SELECT nextval('jobs_job_id_seq') AS id, *,
           greatest(coalesce(run_at, statement_timestamp()
                                     - make_interval(secs => (cardinality(%(kind)s::text[]) - place) / 1e6::float8)),
                    limit_until) AS due_at
    FROM requested
), lane AS MATERIALIZED (
    SELECT each.*, jobs_enter(queue, priority::smallint, owner_id::integer, group_id::integer, requirement_id::integer,
                              ARRAY[]::bigint[], due_at, key_id::integer) AS id
    FROM (SELECT queue, priority, owner_id, group_id, requirement_id, key_id, min(due_at) AS due_at FROM new_job
          GROUP BY queue, priority, owner_id, group_id, requirement_id, key_id) AS each
), keyed AS (
    INSERT INTO jobs_uniquekey (job_id, kind, unique_key, owner_id)
    SELECT id, kind, unique_key, owner_id FROM new_job WHERE unique_key IS NOT NULL
    ORDER BY kind, unique_key, owner_id, place
    ON CONFLICT (kind, unique_key, owner_id) DO NOTHING RETURNING job_id
), stored AS MATERIALIZED (
    SELECT new_job.*, coalesce(new_job.expires_at, greatest(run_at, limit_until, statement_timestamp())
                                                   + make_interval(secs => expires_s)) AS ends_at,
           (SELECT lane.id FROM lane WHERE (lane.queue, lane.priority) = (new_job.queue, new_job.priority)
            AND (lane.owner_id, lane.group_id, lane.requirement_id, lane.key_id)
                IS NOT DISTINCT FROM (new_job.owner_id, new_job.group_id, new_job.requirement_id, new_job.key_id)) AS lane_id
    FROM new_job WHERE unique_key IS NULL OR id IN (SELECT job_id FROM keyed)
), record AS (
    INSERT INTO jobs_job (id, {columns}, created_at, expires_at, limit_until, payload, traceparent, tags)
    SELECT id, {columns}, statement_timestamp(), ends_at, limit_until, payload::jsonb, traceparent, tags::text[] FROM stored
), live AS (
    INSERT INTO jobs_live (job_id, {of_live}, has_key, run_at, expires_at, lane_id)
    SELECT id, {of_live}, unique_key IS NOT NULL, due_at, ends_at, lane_id FROM stored
)
SELECT stored.id, statement_timestamp() AS created_at, stored.due_at AS run_at, stored.ends_at AS expires_at,
       stored.limit_until, stored.lane_id
FROM new_job LEFT JOIN stored ON stored.id = new_job.id ORDER BY new_job.place
