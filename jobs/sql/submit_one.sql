-- As submit.sql, for one job: half of all submits in number, and without arrays half as dear. A row without an id: it
-- has a twin. None: its kind, or who submits it, is not as it was remembered (docs/adr/0115), or there is no such queue.
WITH known AS MATERIALIZED (
    SELECT
    WHERE (%(kind_version)s::xid IS NULL
           OR EXISTS (SELECT FROM jobs_kind WHERE name = %(kind)s::text AND xmin = %(kind_version)s::xid))
      AND (%(token_version)s::xid IS NULL OR EXISTS (
           SELECT FROM accounts_apitoken AS token JOIN auth_user AS person ON person.id = token.user_id
           WHERE token.id = %(token_id)s::bigint AND token.xmin = %(token_version)s::xid
             AND person.xmin = %(person_version)s::xid
             AND (token.expires_at IS NULL OR token.expires_at > statement_timestamp())))
      AND (NOT %(checks_queue)s::boolean OR EXISTS (SELECT FROM jobs_queue WHERE name = %(queue)s::text))
), new_job AS MATERIALIZED (
    SELECT nextval('jobs_job_id_seq') AS id, requested.*,
           greatest(coalesce(run_at, statement_timestamp()), limit_until) AS due_at,
           coalesce(expires_at, greatest(run_at, limit_until, statement_timestamp()) + make_interval(secs => expires_s)) AS ends_at
    FROM (SELECT {values}, statement_timestamp() + make_interval(secs => %(limit_wait_s)s::float8) AS limit_until
          FROM known) AS requested
), keyed AS (
    INSERT INTO jobs_uniquekey (job_id, kind, unique_key, owner_id)
    SELECT id, kind, unique_key, owner_id FROM new_job WHERE unique_key IS NOT NULL
    ON CONFLICT (kind, unique_key, owner_id) DO NOTHING RETURNING job_id
), stored AS MATERIALIZED (
    SELECT * FROM new_job WHERE unique_key IS NULL OR EXISTS (SELECT FROM keyed)
), record AS (
    INSERT INTO jobs_job (id, {columns}, created_at, expires_at, limit_until, payload, traceparent, tags)
    SELECT id, {columns}, statement_timestamp(), ends_at, limit_until, payload::jsonb, traceparent, tags::text[] FROM stored
), live AS (
    INSERT INTO jobs_live (job_id, {of_live}, has_key, run_at, expires_at, lane_id)
    SELECT id, {of_live}, unique_key IS NOT NULL, due_at, ends_at,
           jobs_enter(queue, priority::smallint, owner_id::integer, group_id::integer, requirement_id::integer,
                      ARRAY[]::bigint[], due_at, key_id::integer)
    FROM stored RETURNING lane_id
)
SELECT stored.id, statement_timestamp() AS created_at, stored.due_at AS run_at, stored.ends_at AS expires_at,
       stored.limit_until, live.lane_id
FROM known LEFT JOIN (stored CROSS JOIN live) ON true
