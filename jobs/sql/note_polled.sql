-- Note which queues a worker polls: those of this claim first, then what it polled lately besides. * stands for all that
-- its key may take; alone it is kept as null. `was`: what was known before. A row that somebody writes now is left alone: a
-- worker with many calls at once must not queue up behind itself, and its next claim notes it.
WITH worker AS MATERIALIZED (
    SELECT id, polled_queues, polled_at FROM jobs_worker WHERE id = %(worker)s::bigint FOR UPDATE SKIP LOCKED
), entry AS (
    SELECT name, statement_timestamp() AS at, place FROM unnest(%(queues)s::varchar[]) WITH ORDINALITY AS n (name, place)
    UNION ALL
    SELECT name, at, 1000 + place
    FROM worker CROSS JOIN LATERAL unnest(polled_queues, polled_at) WITH ORDINALITY AS known (name, at, place)
    WHERE name <> ALL (%(queues)s::varchar[])
      AND at > statement_timestamp() - make_interval(secs => %(alive_s)s::float8)
), polled AS (
    SELECT array_agg(name ORDER BY place) AS queues, array_agg(at ORDER BY place) AS since FROM entry
)
UPDATE jobs_worker AS noted
SET polled_queues = CASE WHEN polled.queues <> '{*}' THEN polled.queues END,
    polled_at = CASE WHEN polled.queues <> '{*}' THEN polled.since END
FROM worker, polled WHERE noted.id = worker.id
RETURNING noted.polled_queues, noted.polled_at, worker.polled_queues AS was
