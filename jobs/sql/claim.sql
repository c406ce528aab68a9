-- Lease up to N pending jobs of some queues, in the order of the queues, to a worker that serves everybody.
-- One statement under READ COMMITTED. SKIP LOCKED: two workers asking at once get two different jobs.
-- A job hides from the workers in its excluded_workers. excluded_workers is an index key: each distinct set is one
-- range, so ten thousand jobs hidden from this worker are jumped over in one step. The ranges are read in the order of
-- their heads: the first jobs in them that may be taken. A requirement of labels is a negative number in such a set
-- (docs/adr/0085): of one that this worker does not satisfy nothing is read but the first entry, and from there it goes
-- on at the next that it takes. What it satisfies stands in its row; jobs without requirements ask for none of it. 64 sets of workers are looked at, and of
-- requirements all.
-- The jobs that hide from nobody are nearly all. They are read in the ranges that the caller gives (priorities, and
-- since when): what lies before is known to be taken, and may be a pile of dead index entries (docs/adr/0036). What
-- became due within the margin is always looked at: a transaction that is slow to commit may yet bring some. A
-- scan_range with an end is a slice of what lies before: it ends where that margin begins, since no job may be met
-- twice.
-- A queue with a ceiling gives as many jobs as it has free slots; who loses the race for a slot gets a row
-- with no job but the queue's name ("crowded out"). Slots below `top` may be taken: below the ceiling, as a rule. While
-- jobs still sit beyond a lowered ceiling they count too: then one job at a time, and all look at the same slot (the
-- lowest free one), so that of two claims which saw room for one job only one gets it.
-- A drained worker is given nothing, whatever its call knew when it began (docs/adr/0074).
-- The lease is good for one heartbeat interval: the first call that names it confirms and renews it (heartbeat.sql).
-- Its secret is one of those that the caller brings: gen_random_uuid() opens /dev/urandom for each row where PostgreSQL
-- is built without OpenSSL, as the embedded one is, and was a tenth of a claim of a hundred.
-- The UPDATE asks once more whether the job waits, in words that no partial index has: by `status = 'pending'` the
-- planner may read all of the waiting jobs for it, when statistics from an idle hour say that there are none.
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
), takeable (ids) AS MATERIALIZED (
    SELECT ARRAY(
        SELECT one.id FROM jobs_requirement AS one
        CROSS JOIN (SELECT satisfies FROM jobs_worker WHERE id = %(worker)s::bigint) AS mine
        WHERE one.retired_at IS NULL AND (one.id = ANY (mine.satisfies)
           OR one.prefers <> '{}' AND (one.base_id IS NULL OR one.base_id = ANY (mine.satisfies))))
), excluded_set (name, excluded_workers, until, step) AS (
    SELECT name, '{}'::bigint[], 'infinity'::timestamptz, 0 FROM polled WHERE room > 0
    UNION ALL
    SELECT excluded_set.name, further.excluded_workers, takes.until,
           excluded_set.step + CASE WHEN takes.until IS NULL OR further.excluded_workers = ARRAY[least(further.excluded_workers[1], 0)]
                                    THEN 0 ELSE 1 END
    FROM excluded_set CROSS JOIN LATERAL (
        SELECT job.excluded_workers FROM jobs_job AS job
        WHERE job.status = 'pending' AND job.queue = excluded_set.name
          AND job.excluded_workers > CASE WHEN excluded_set.until IS NULL
                                          THEN ARRAY[coalesce((
               SELECT -max(id) FROM takeable CROSS JOIN unnest(ids) AS id WHERE id < -excluded_set.excluded_workers[1]
           ), 0) - 1, 9223372036854775807]
                                          ELSE excluded_set.excluded_workers END
        ORDER BY job.excluded_workers LIMIT 1) AS further
    CROSS JOIN LATERAL (
        SELECT CASE WHEN further.excluded_workers[1] > 0 THEN 'infinity' ELSE jobs_takes_until(
            further.excluded_workers, (SELECT satisfies FROM jobs_worker WHERE id = %(worker)s::bigint),
            %(head_start_s)s::float8, %(alive_s)s::float8) END AS until) AS takes
    WHERE excluded_set.step < 64
), scan_range (name, low, high, since, until) AS MATERIALIZED (
    SELECT name, low, high,
           least(since, margin), CASE WHEN until IS NULL THEN 'infinity' ELSE least(until, margin) END
    FROM unnest(%(range_of)s::text[], %(low)s::smallint[], %(high)s::smallint[], %(since)s::timestamptz[],
                %(until)s::timestamptz[]) AS bounds (name, low, high, since, until)
    CROSS JOIN LATERAL (
        SELECT statement_timestamp() - make_interval(secs => %(margin_s)s::float8)) AS m (margin)
), range AS MATERIALIZED (
    SELECT polled.*, excluded_set.excluded_workers, scan_range.low, scan_range.high, scan_range.since, scan_range.until, head.priority,
           head.run_at, head.id
    FROM polled JOIN excluded_set USING (name)
    CROSS JOIN LATERAL (
        SELECT low, high, since, until FROM scan_range WHERE excluded_set.excluded_workers = '{}' AND scan_range.name = polled.name
        UNION ALL
        SELECT -32767::smallint, 32767::smallint, '-infinity'::timestamptz, excluded_set.until
        WHERE excluded_set.excluded_workers <> '{}' AND excluded_set.until IS NOT NULL) AS scan_range
    CROSS JOIN LATERAL (
        SELECT job.priority, job.run_at, job.id FROM jobs_job AS job
        WHERE job.status = 'pending' AND job.queue = polled.name AND job.excluded_workers = excluded_set.excluded_workers
          AND job.priority BETWEEN scan_range.low AND scan_range.high
          AND job.run_at >= scan_range.since AND job.run_at < scan_range.until AND job.run_at <= statement_timestamp()
          AND (job.expires_at IS NULL OR job.expires_at > statement_timestamp() OR job.confirmed_fence > 0)
        ORDER BY job.priority DESC, job.run_at, job.id LIMIT 1) AS head
    WHERE NOT %(worker)s::bigint = ANY (excluded_set.excluded_workers)
), picked AS MATERIALIZED (
    SELECT pick.*, sorted.name, sorted.top, sorted.excluded_workers = '{}' AS is_open, row_number() OVER () AS pick_no
    FROM (SELECT * FROM range ORDER BY place, priority DESC, run_at, id) AS sorted
    CROSS JOIN LATERAL (
        SELECT job.id, job.priority, job.run_at FROM jobs_job AS job
        WHERE job.status = 'pending' AND job.queue = sorted.name AND job.excluded_workers = sorted.excluded_workers
          AND job.priority BETWEEN sorted.low AND sorted.high
          AND job.run_at >= sorted.since AND job.run_at < sorted.until AND job.run_at <= statement_timestamp()
          AND (job.expires_at IS NULL OR job.expires_at > statement_timestamp() OR job.confirmed_fence > 0)
        ORDER BY job.priority DESC, job.run_at, job.id
        LIMIT sorted.room FOR UPDATE SKIP LOCKED) AS pick
    LIMIT %(limit)s::bigint
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
           job.owner_id, job.group_id,
           admitted.pick_no, admitted.name, admitted.priority, admitted.run_at, admitted.is_open,
           admitted.top IS NOT NULL AS has_ceiling
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
