-- Add up steps of time into longer ones: all the long steps that the given scan_range touches, each from all of its
-- short ones, so that it does not matter what was added up before.
WITH whole AS MATERIALIZED (
    SELECT date_bin(make_interval(secs => %(step_s)s::float8), %(since)s::timestamptz, 'epoch') AS since,
           date_bin(make_interval(secs => %(step_s)s::float8), %(until)s::timestamptz - interval '1 microsecond', 'epoch')
               + make_interval(secs => %(step_s)s::float8) AS until
), part AS MATERIALIZED (
    SELECT date_bin(make_interval(secs => %(step_s)s::float8), rollup.at, 'epoch') AS at, rollup.queue, rollup.kind,
           rollup.arrived, rollup.success, rollup.failed, rollup.canceled, rollup.timed_out, rollup.ran, rollup.waited
    FROM jobs_rollup AS rollup, whole
    WHERE rollup.step_s = %(part_s)s::bigint AND rollup.at >= whole.since AND rollup.at < whole.until
), times AS (
    SELECT at, queue, kind, jsonb_object_agg(key, jobs) FILTER (WHERE is_run) AS ran,
           jsonb_object_agg(key, jobs) FILTER (WHERE NOT is_run) AS waited
    FROM (SELECT at, queue, kind, is_run, key, sum(value::bigint) AS jobs
          FROM part CROSS JOIN LATERAL (VALUES (true, part.ran), (false, part.waited)) AS one (is_run, buckets),
               jsonb_each_text(buckets) GROUP BY 1, 2, 3, 4, 5) AS counted
    GROUP BY 1, 2, 3
), fresh AS MATERIALIZED (
    SELECT at, queue, kind, sum(arrived)::integer AS arrived, sum(success)::integer AS success,
           sum(failed)::integer AS failed, sum(canceled)::integer AS canceled, sum(timed_out)::integer AS timed_out
    FROM part GROUP BY 1, 2, 3
), gone AS (
    DELETE FROM jobs_rollup AS rollup USING whole
    WHERE rollup.step_s = %(step_s)s::bigint AND rollup.at >= whole.since AND rollup.at < whole.until
      AND NOT EXISTS (SELECT FROM fresh WHERE (fresh.at, fresh.queue, fresh.kind) = (rollup.at, rollup.queue, rollup.kind))
)
INSERT INTO jobs_rollup AS rollup
    (step_s, at, queue, kind, arrived, success, failed, canceled, timed_out, ran, waited)
SELECT %(step_s)s::bigint, fresh.at, fresh.queue, fresh.kind, arrived, success, failed, canceled, timed_out,
       coalesce(ran, '{}'), coalesce(waited, '{}')
FROM fresh LEFT JOIN times USING (at, queue, kind)
ORDER BY at, queue, kind
ON CONFLICT (step_s, at, queue, kind) DO UPDATE
SET arrived = excluded.arrived, success = excluded.success, failed = excluded.failed, canceled = excluded.canceled,
    timed_out = excluded.timed_out, ran = excluded.ran, waited = excluded.waited
WHERE (rollup.arrived, rollup.success, rollup.failed, rollup.canceled, rollup.timed_out, rollup.ran, rollup.waited)
    IS DISTINCT FROM (excluded.arrived, excluded.success, excluded.failed, excluded.canceled, excluded.timed_out,
                      excluded.ran, excluded.waited)
