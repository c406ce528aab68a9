-- As claim.sql, for a worker that a member created: it takes its owner's jobs and those of the owner's groups.
-- Whose a job is, is an index key too (jobs_waiting_of_owner, jobs_waiting_of_group), so jobs out of its scope are never
-- read. These indexes say that a job waits in other words than jobs_claimable, and so does whoever means them: by the same
-- words the planner takes that one and filters, when statistics of an idle hour know no owners (660 pages for 30). A range is one (queue, whose, excluded_workers). Where a job is in two ranges (mine, and my group's), the
-- second meets it again, since its own locks do not make it skip: DISTINCT ON keeps one.
-- Ranges (docs/adr/0036) are of an owner's or of a group's jobs in a queue. Groups for which none is given, since this
-- process knows nothing of them yet, are scanned as a whole. Requirements of labels are as in claim.sql.
WITH RECURSIVE polled AS MATERIALIZED (
    SELECT queue.name, slots.top, named.place,
           CASE WHEN queue.ceiling IS NULL THEN %(limit)s::bigint ELSE (
               SELECT count(*) FROM (
                   SELECT FROM jobs_slot AS slot
                   WHERE slot.queue_id = queue.name AND slot.n < slots.top AND slot.job_id IS NULL
                   LIMIT %(limit)s::bigint) AS free) END AS room
    FROM unnest(%(queues)s::text[]) WITH ORDINALITY AS named (name, place)
    JOIN jobs_queue AS queue ON queue.name = named.name AND queue.paused_at IS NULL
    CROSS JOIN LATERAL (
        SELECT CASE WHEN queue.ceiling IS NULL OR NOT EXISTS (
            SELECT FROM jobs_slot AS slot
            WHERE slot.queue_id = queue.name AND slot.n >= queue.ceiling AND slot.job_id IS NOT NULL
        ) THEN queue.ceiling ELSE (
            SELECT CASE WHEN count(slot.job_id) < queue.ceiling
                        THEN coalesce(min(slot.n) FILTER (WHERE slot.job_id IS NULL) + 1, 0) ELSE 0 END
            FROM jobs_slot AS slot WHERE slot.queue_id = queue.name) END AS top) AS slots
    WHERE NOT EXISTS (SELECT FROM jobs_worker WHERE id = %(worker)s::bigint AND drained_at IS NOT NULL)
      AND (NOT %(only_if_idle)s::boolean OR NOT EXISTS (
        SELECT FROM jobs_job WHERE status = 'in_progress' AND worker_id = %(worker)s::bigint))
), whose (owner_id, group_id) AS MATERIALIZED (
    SELECT %(owner)s::integer, NULL::integer
    UNION ALL
    SELECT NULL, membership.group_id FROM auth_user_groups AS membership WHERE membership.user_id = %(owner)s::integer
), takeable (ids) AS MATERIALIZED (
    SELECT ARRAY(
        SELECT one.id FROM jobs_requirement AS one
        CROSS JOIN (SELECT satisfies FROM jobs_worker WHERE id = %(worker)s::bigint) AS mine
        WHERE one.retired_at IS NULL AND (one.id = ANY (mine.satisfies)
           OR one.prefers <> '{}' AND (one.base_id IS NULL OR one.base_id = ANY (mine.satisfies))))
), excluded_set (name, owner_id, group_id, excluded_workers, until, step) AS (
    SELECT polled.name, whose.owner_id, whose.group_id, '{}'::bigint[], 'infinity'::timestamptz, 0 FROM polled CROSS JOIN whose WHERE room > 0
    UNION ALL
    SELECT excluded_set.name, excluded_set.owner_id, excluded_set.group_id, further.excluded_workers, takes.until,
           excluded_set.step + CASE WHEN takes.until IS NULL OR further.excluded_workers = ARRAY[least(further.excluded_workers[1], 0)]
                                    THEN 0 ELSE 1 END
    FROM excluded_set CROSS JOIN LATERAL (
        SELECT CASE WHEN excluded_set.until IS NULL THEN ARRAY[coalesce((
                            SELECT -max(id) FROM takeable CROSS JOIN unnest(ids) AS id WHERE id < -excluded_set.excluded_workers[1]
                        ), 0) - 1, 9223372036854775807]
                    ELSE excluded_set.excluded_workers END AS key) AS behind
    CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT job.excluded_workers FROM jobs_job AS job
            WHERE excluded_set.owner_id IS NOT NULL AND job.ended_at IS NULL AND job.lease_secret IS NULL AND job.queue = excluded_set.name
              AND job.owner_id = excluded_set.owner_id AND job.excluded_workers > behind.key
            ORDER BY job.excluded_workers LIMIT 1) AS owned
        UNION ALL
        SELECT * FROM (
            SELECT job.excluded_workers FROM jobs_job AS job
            WHERE excluded_set.group_id IS NOT NULL AND job.ended_at IS NULL AND job.lease_secret IS NULL AND job.queue = excluded_set.name
              AND job.group_id = excluded_set.group_id AND job.excluded_workers > behind.key
            ORDER BY job.excluded_workers LIMIT 1) AS shared) AS further
    CROSS JOIN LATERAL (
        SELECT CASE WHEN further.excluded_workers[1] > 0 THEN 'infinity' ELSE jobs_takes_until(
            further.excluded_workers, (SELECT satisfies FROM jobs_worker WHERE id = %(worker)s::bigint),
            %(head_start_s)s::float8, %(alive_s)s::float8) END AS until) AS takes
    WHERE excluded_set.step < 64
), bounds (name, owner_id, group_id, low, high, since, until) AS MATERIALIZED (
    SELECT * FROM unnest(%(range_of)s::text[], %(range_owner)s::integer[], %(range_group)s::integer[],
                         %(low)s::smallint[], %(high)s::smallint[], %(since)s::timestamptz[], %(until)s::timestamptz[])
), scan_range (name, owner_id, group_id, low, high, since, until) AS MATERIALIZED (
    SELECT name, owner_id, group_id, low, high,
           least(since, margin), CASE WHEN until IS NULL THEN 'infinity' ELSE least(until, margin) END
    FROM bounds CROSS JOIN LATERAL (
        SELECT statement_timestamp() - make_interval(secs => %(margin_s)s::float8)) AS m (margin)
    UNION ALL
    SELECT polled.name, whose.owner_id, whose.group_id, -32767::smallint, 32767::smallint, '-infinity', 'infinity'
    FROM polled CROSS JOIN whose
    WHERE NOT EXISTS (
        SELECT FROM bounds
        WHERE bounds.name = polled.name AND (bounds.owner_id = whose.owner_id OR bounds.group_id = whose.group_id))
), range AS MATERIALIZED (
    SELECT polled.*, excluded_set.owner_id, excluded_set.group_id, excluded_set.excluded_workers, scan_range.low, scan_range.high, scan_range.since,
           scan_range.until, head.priority, head.run_at, head.id
    FROM polled JOIN excluded_set USING (name)
    CROSS JOIN LATERAL (
        SELECT low, high, since, until FROM scan_range
        WHERE excluded_set.excluded_workers = '{}' AND scan_range.name = polled.name
          AND (scan_range.owner_id = excluded_set.owner_id OR scan_range.group_id = excluded_set.group_id)
        UNION ALL
        SELECT -32767::smallint, 32767::smallint, '-infinity'::timestamptz, excluded_set.until
        WHERE excluded_set.excluded_workers <> '{}' AND excluded_set.until IS NOT NULL) AS scan_range
    CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT job.priority, job.run_at, job.id FROM jobs_job AS job
            WHERE excluded_set.owner_id IS NOT NULL AND job.ended_at IS NULL AND job.lease_secret IS NULL AND job.queue = polled.name
              AND job.owner_id = excluded_set.owner_id AND job.excluded_workers = excluded_set.excluded_workers
              AND job.priority BETWEEN scan_range.low AND scan_range.high
              AND job.run_at >= scan_range.since AND job.run_at < scan_range.until AND job.run_at <= statement_timestamp()
              AND (job.expires_at IS NULL OR job.expires_at > statement_timestamp() OR job.confirmed_fence > 0)
            ORDER BY job.priority DESC, job.run_at, job.id LIMIT 1) AS owned
        UNION ALL
        SELECT * FROM (
            SELECT job.priority, job.run_at, job.id FROM jobs_job AS job
            WHERE excluded_set.group_id IS NOT NULL AND job.ended_at IS NULL AND job.lease_secret IS NULL AND job.queue = polled.name
              AND job.group_id = excluded_set.group_id AND job.excluded_workers = excluded_set.excluded_workers
              AND job.priority BETWEEN scan_range.low AND scan_range.high
              AND job.run_at >= scan_range.since AND job.run_at < scan_range.until AND job.run_at <= statement_timestamp()
              AND (job.expires_at IS NULL OR job.expires_at > statement_timestamp() OR job.confirmed_fence > 0)
            ORDER BY job.priority DESC, job.run_at, job.id LIMIT 1) AS shared) AS head
    WHERE NOT %(worker)s::bigint = ANY (excluded_set.excluded_workers)
), met AS MATERIALIZED (
    SELECT pick.id, sorted.name, sorted.top, row_number() OVER () AS pick_no
    FROM (SELECT * FROM range ORDER BY place, priority DESC, run_at, id) AS sorted
    CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT job.id FROM jobs_job AS job
            WHERE sorted.owner_id IS NOT NULL AND job.ended_at IS NULL AND job.lease_secret IS NULL AND job.queue = sorted.name
              AND job.owner_id = sorted.owner_id AND job.excluded_workers = sorted.excluded_workers
              AND job.priority BETWEEN sorted.low AND sorted.high
              AND job.run_at >= sorted.since AND job.run_at < sorted.until AND job.run_at <= statement_timestamp()
              AND (job.expires_at IS NULL OR job.expires_at > statement_timestamp() OR job.confirmed_fence > 0)
            ORDER BY job.priority DESC, job.run_at, job.id
            LIMIT sorted.room FOR UPDATE SKIP LOCKED) AS owned
        UNION ALL
        SELECT * FROM (
            SELECT job.id FROM jobs_job AS job
            WHERE sorted.group_id IS NOT NULL AND job.ended_at IS NULL AND job.lease_secret IS NULL AND job.queue = sorted.name
              AND job.group_id = sorted.group_id AND job.excluded_workers = sorted.excluded_workers
              AND job.priority BETWEEN sorted.low AND sorted.high
              AND job.run_at >= sorted.since AND job.run_at < sorted.until AND job.run_at <= statement_timestamp()
              AND (job.expires_at IS NULL OR job.expires_at > statement_timestamp() OR job.confirmed_fence > 0)
            ORDER BY job.priority DESC, job.run_at, job.id
            LIMIT sorted.room FOR UPDATE SKIP LOCKED) AS shared) AS pick
    LIMIT %(limit)s::bigint
), picked AS MATERIALIZED (
    SELECT DISTINCT ON (id) * FROM met ORDER BY id, pick_no
), wanted AS (
    SELECT name, top, array_agg(id ORDER BY pick_no) AS ids FROM picked WHERE top IS NOT NULL GROUP BY name, top
), slot AS MATERIALIZED (
    SELECT free.id, wanted.ids[free.rank_no] AS job_id
    FROM wanted CROSS JOIN LATERAL (
        SELECT locked.id, row_number() OVER (ORDER BY locked.n) AS rank_no FROM (
            SELECT slot.id, slot.n FROM jobs_slot AS slot
            WHERE slot.queue_id = wanted.name AND slot.n < wanted.top AND slot.job_id IS NULL
            ORDER BY slot.n LIMIT cardinality(wanted.ids) FOR UPDATE SKIP LOCKED) AS locked) AS free
), seated AS (
    UPDATE jobs_slot SET job_id = slot.job_id FROM slot WHERE jobs_slot.id = slot.id
), admitted AS (
    SELECT picked.*, picked.top IS NULL OR slot.id IS NOT NULL AS has_room
    FROM picked LEFT JOIN slot ON slot.job_id = picked.id
), claimed AS (
    UPDATE jobs_job AS job
    SET status = 'in_progress', fence = job.fence + 1, lease_secret = (%(secrets)s::uuid[])[admitted.pick_no],
        attempt = job.failures + 1, request = %(request)s::uuid,
        lease_expires_at = statement_timestamp() + make_interval(secs => %(confirm_s)s::float8),
        deadline_at = statement_timestamp() + make_interval(secs => job.timeout_s),
        worker_id = %(worker)s::bigint, worker_name = %(worker_name)s::text, claimed_at = statement_timestamp(),
        next_seq = 0, progress = NULL, detail = NULL,
        earlier_output_bytes = job.earlier_output_bytes + job.output_bytes, output_bytes = 0
    FROM admitted WHERE job.id = admitted.id AND admitted.has_room AND job.ended_at IS NULL AND job.lease_secret IS NULL
    RETURNING job.id, job.kind, job.queue, job.fence, job.lease_secret, job.lease_expires_at,
           job.attempt, job.max_attempts, job.retry_when_lost,
           job.priority, job.run_at, job.owner_id, job.group_id, job.excluded_workers = '{}' AS is_open,
           admitted.pick_no, admitted.name, admitted.top IS NOT NULL AS has_ceiling
)
SELECT claimed.id, claimed.kind, claimed.queue, claimed.fence, claimed.lease_secret, claimed.lease_expires_at,
       claimed.attempt, claimed.max_attempts, claimed.retry_when_lost,
       body.payload::text AS payload, body.traceparent, claimed.name AS picked_from, claimed.priority, claimed.run_at,
       claimed.owner_id, claimed.group_id, claimed.is_open, claimed.pick_no, body.inputs::text AS inputs,
       claimed.has_ceiling
FROM claimed LEFT JOIN jobs_body AS body ON body.job_id = claimed.id
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, name, NULL, NULL, NULL, NULL, NULL, pick_no, NULL, NULL
FROM admitted WHERE NOT has_room
ORDER BY pick_no
