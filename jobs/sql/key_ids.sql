-- The ids of concurrency keys. One that was not used within an hour is noted as used, so that retention leaves it, one whose
-- kind has another bound by now gets that, and a new one is made: in order, so that two submits cannot deadlock. A queue's
-- keys have the queue's bound, those of a kind that code does not declare its row's, which is locked for a new one: who
-- sets a bound waits, and finds the key.
WITH given AS MATERIALIZED (
    SELECT DISTINCT kind, queue, name, bound AS declared, CASE WHEN kind = '' THEN (
               SELECT one.of_key FROM jobs_queue AS one WHERE one.name = given.queue) ELSE coalesce(bound, (
               SELECT one.concurrency FROM jobs_kind AS one WHERE one.name = given.kind)) END AS bound
    FROM unnest(%(kind)s::text[], %(queue)s::text[], %(name)s::text[], %(bound)s::smallint[]) AS given (kind, queue, name, bound)
), known AS MATERIALIZED (
    SELECT key.id, given.kind, given.queue, given.name
    FROM given CROSS JOIN LATERAL (
        SELECT one.* FROM jobs_concurrencykey AS one
        WHERE (one.kind, one.queue, one.name) = (given.kind, given.queue, given.name) OFFSET 0) AS key
    WHERE key.used_at > statement_timestamp() - interval '1 hour' AND key.bound IS NOT DISTINCT FROM given.bound
), made AS (
    INSERT INTO jobs_concurrencykey (kind, queue, name, bound, used_at)
    SELECT kind, queue, name, CASE WHEN kind = '' THEN (
               SELECT one.of_key FROM jobs_queue AS one WHERE one.name = given.queue FOR KEY SHARE) ELSE coalesce(declared, (
               SELECT one.concurrency FROM jobs_kind AS one WHERE one.name = given.kind FOR KEY SHARE)) END,
           statement_timestamp()
    FROM given
    WHERE NOT EXISTS (SELECT FROM known WHERE (known.kind, known.queue, known.name) = (given.kind, given.queue, given.name))
    ORDER BY kind, queue, name
    ON CONFLICT (kind, queue, name) DO UPDATE SET bound = excluded.bound, used_at = excluded.used_at
    RETURNING id, kind, queue, name
)
SELECT * FROM known UNION ALL SELECT * FROM made
