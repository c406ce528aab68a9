-- Lease up to N pending jobs of some queues, in the order of the queues, to a worker that serves everybody.
-- One statement under READ COMMITTED. SKIP LOCKED: two workers asking at once get two different jobs.
-- A job hides from the workers in its shy_of. shy_of is an index key: each distinct set is one range, so ten thousand
-- jobs hidden from this worker are jumped over in one step. The ranges are read in the order of their heads: the first jobs in them that may be taken.
-- The jobs that hide from nobody are nearly all. They are read in the stretches that the caller gives (priorities, and
-- since when): what lies before is known to be taken, and may be a pile of dead index entries (docs/adr/0036). What
-- became due within the margin is always looked at: a transaction that is slow to commit may yet bring some. A stretch
-- with an end is a slice of what lies before: it ends where that margin begins, since no job may be met twice.
-- A queue with a ceiling gives as many jobs as it has free slots; who loses the race for a slot gets a row
-- with no job but the queue's name ("crowded out"). Slots below `top` may be taken: below the ceiling, as a rule. While
-- jobs still sit beyond a lowered ceiling they count too: then one job at a time, and all look at the same slot (the
-- lowest free one), so that of two claims which saw room for one job only one gets it.
-- The lease is good for one heartbeat interval: the first call that names it confirms and renews it (heartbeat.sql).
-- The UPDATE asks once more whether the job waits, in words that no partial index has: by `status = 'pending'` the
-- planner may read all of the waiting jobs for it, when statistics from an idle hour say that there are none.
WITH RECURSIVE asked AS MATERIALIZED (
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
    WHERE NOT %(only_if_idle)s::boolean OR NOT EXISTS (
        SELECT FROM jobs_job WHERE status = 'in_progress' AND worker_id = %(worker)s::bigint)
), shy_set (name, shy_of, turn) AS (
    SELECT name, '{}'::bigint[], 0 FROM asked WHERE room > 0
    UNION ALL
    SELECT shy_set.name, further.shy_of, shy_set.turn + 1
    FROM shy_set CROSS JOIN LATERAL (
        SELECT job.shy_of FROM jobs_job AS job
        WHERE job.status = 'pending' AND job.queue = shy_set.name AND job.shy_of > shy_set.shy_of
        ORDER BY job.shy_of LIMIT 1) AS further
    WHERE shy_set.turn < 64
), stretch (name, low, high, since, until) AS MATERIALIZED (
    SELECT name, low, high,
           least(since, margin), CASE WHEN until IS NULL THEN 'infinity' ELSE least(until, margin) END
    FROM unnest(%(stretch_of)s::text[], %(low)s::smallint[], %(high)s::smallint[], %(since)s::timestamptz[],
                %(until)s::timestamptz[]) AS given (name, low, high, since, until)
    CROSS JOIN LATERAL (
        SELECT statement_timestamp() - make_interval(secs => %(margin_s)s::float8)) AS m (margin)
), range AS MATERIALIZED (
    SELECT asked.*, shy_set.shy_of, stretch.low, stretch.high, stretch.since, stretch.until, head.priority,
           head.run_at, head.id
    FROM asked JOIN shy_set USING (name)
    CROSS JOIN LATERAL (
        SELECT low, high, since, until FROM stretch WHERE shy_set.shy_of = '{}' AND stretch.name = asked.name
        UNION ALL
        SELECT -32767::smallint, 32767::smallint, '-infinity'::timestamptz, 'infinity'::timestamptz
        WHERE shy_set.shy_of <> '{}') AS stretch
    CROSS JOIN LATERAL (
        SELECT job.priority, job.run_at, job.id FROM jobs_job AS job
        WHERE job.status = 'pending' AND job.queue = asked.name AND job.shy_of = shy_set.shy_of
          AND job.priority BETWEEN stretch.low AND stretch.high
          AND job.run_at >= stretch.since AND job.run_at < stretch.until AND job.run_at <= statement_timestamp()
          AND (job.expires_at IS NULL OR job.expires_at > statement_timestamp())
        ORDER BY job.priority DESC, job.run_at, job.id LIMIT 1) AS head
    WHERE NOT %(worker)s::bigint = ANY (shy_set.shy_of)
), picked AS MATERIALIZED (
    SELECT pick.*, sorted.name, sorted.top, sorted.shy_of = '{}' AS is_open, row_number() OVER () AS pick_no
    FROM (SELECT * FROM range ORDER BY place, priority DESC, run_at, id) AS sorted
    CROSS JOIN LATERAL (
        SELECT job.id, job.priority, job.run_at FROM jobs_job AS job
        WHERE job.status = 'pending' AND job.queue = sorted.name AND job.shy_of = sorted.shy_of
          AND job.priority BETWEEN sorted.low AND sorted.high
          AND job.run_at >= sorted.since AND job.run_at < sorted.until AND job.run_at <= statement_timestamp()
          AND (job.expires_at IS NULL OR job.expires_at > statement_timestamp())
        ORDER BY job.priority DESC, job.run_at, job.id
        LIMIT sorted.room FOR UPDATE SKIP LOCKED) AS pick
    LIMIT %(limit)s::bigint
), turn AS (
    SELECT picked.*, row_number() OVER (PARTITION BY name ORDER BY pick_no) AS turn_no FROM picked
), slot AS MATERIALIZED (
    SELECT free.id, wanted.name, row_number() OVER (PARTITION BY wanted.name ORDER BY free.n) AS turn_no
    FROM (SELECT name, top, count(*) AS jobs FROM picked WHERE top IS NOT NULL GROUP BY name, top) AS wanted
    CROSS JOIN LATERAL (
        SELECT slot.id, slot.n FROM jobs_slot AS slot
        WHERE slot.queue_id = wanted.name AND slot.n < wanted.top AND slot.job_id IS NULL
        ORDER BY slot.n LIMIT wanted.jobs FOR UPDATE SKIP LOCKED) AS free
), admitted AS MATERIALIZED (
    SELECT turn.*, slot.id AS slot_id
    FROM turn LEFT JOIN slot USING (name, turn_no)
    WHERE turn.top IS NULL OR slot.id IS NOT NULL
), seated AS (
    UPDATE jobs_slot SET job_id = admitted.id FROM admitted WHERE jobs_slot.id = admitted.slot_id
), claimed AS (
    UPDATE jobs_job AS job
    SET status = 'in_progress', claim_no = job.claim_no + 1, lease_secret = gen_random_uuid(),
        attempt = job.failures + 1, request = %(request)s::uuid,
        lease_expires_at = statement_timestamp() + make_interval(secs => %(confirm_s)s::float8),
        deadline_at = statement_timestamp() + make_interval(secs => job.timeout_s),
        worker_id = %(worker)s::bigint, worker_name = %(worker_name)s::text, claimed_at = statement_timestamp(),
        next_seq = 0, progress = NULL, detail = NULL,
        earlier_output_bytes = job.earlier_output_bytes + job.output_bytes, output_bytes = 0
    FROM admitted WHERE job.id = admitted.id AND job.ended_at IS NULL AND job.lease_secret IS NULL
    RETURNING job.id, job.kind, job.queue, job.claim_no, job.lease_secret, job.lease_expires_at,
           job.attempt, job.max_attempts, job.retry_when_lost,
           job.owner_id, job.group_id,
           admitted.pick_no, admitted.name, admitted.priority, admitted.run_at, admitted.is_open
)
SELECT claimed.id, claimed.kind, claimed.queue, claimed.claim_no, claimed.lease_secret, claimed.lease_expires_at,
       claimed.attempt, claimed.max_attempts, claimed.retry_when_lost,
       body.payload::text AS payload, body.traceparent, claimed.name AS picked_from, claimed.priority, claimed.run_at,
       claimed.owner_id, claimed.group_id, claimed.is_open, claimed.pick_no
FROM claimed LEFT JOIN jobs_body AS body ON body.job_id = claimed.id
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, turn.name, NULL, NULL, NULL, NULL, NULL, turn.pick_no
FROM turn LEFT JOIN slot USING (name, turn_no)
WHERE turn.top IS NOT NULL AND slot.id IS NULL
ORDER BY pick_no
