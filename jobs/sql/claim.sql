-- Lease up to N pending jobs of some queues, in the order of the queues, to a worker; of each queue in the order of its
-- lanes: by priority, then by since when something in them may be due (docs/adr/0112). One statement under READ COMMITTED.
-- SKIP LOCKED: two workers asking at once get two different jobs. Lanes are looked at one after the other until there is
-- enough, each from its mark on: what lies before was taken long ago, and may be a pile of dead index entries.
-- A worker takes from lanes of its scope and of what its labels satisfy; what avoids it, once it has been due for a grace.
-- A lane may have several marks: the first stands for all. A worker of a member's looks at no lanes but those of its
-- owner and the owner's groups, by a function, since what it does not run costs a plan too, 3 % of a claim of one: of the
-- two ways to marks one is empty, so their orders need no merging.
-- `lanes` is more than there are: without a LIMIT the planner would sort them all first; of one that it does not know it
-- expects a tenth, and reads them in the index's order, as far as it has to.
-- Of a concurrency key it takes what has room (jobs_key_room): from several lanes of one key no more than from one, and
-- from several fair queues, each of which counts for itself. Until when a lane's jobs are taken is worked out once (OFFSET 0).
-- Each column of each step is described anew for every claim: what none needs was 2 % of a claim of one, so they are named.
-- A queue with a ceiling gives as many jobs as have room; all locks of ceilings come before any job, in order of name, and
-- only of queues in which something may be due. The function that takes them is called as a value and not as a table: a
-- scan of a function keeps its rows in a store, 4 % of a claim of one job.
-- A drained worker is given nothing, whatever its call knew when it began (docs/adr/0007), nor is one whose row is not
-- the `version` that was read (docs/adr/0115). Of any other there is a row: without an id where it is given nothing.
-- The lease is good for one heartbeat interval: the first call that names it confirms and renews it (heartbeat.sql).
-- Its secret is one of those that the caller brings: where PostgreSQL is built without OpenSSL gen_random_uuid() opens
-- /dev/urandom for each row, a tenth of a claim of a hundred. One for all would let the lease of one job end another.
-- `after`, what all of them come after, is asked once, and stands in one row; by a function that is called as a value too.
-- Who changes rows names their places (ctid), joins nothing to them and asks once more whether they wait, in words that no
-- partial index has: by a plan from an idle hour PostgreSQL might read all of the waiting jobs for it.
-- The functions that it calls stand in jobs/migrations/functions.sql.
WITH me AS MATERIALIZED (
    SELECT worker.owner_id, worker.satisfies, ARRAY(
               SELECT membership.group_id FROM auth_user_groups AS membership
               WHERE membership.user_id = worker.owner_id) AS groups
    FROM jobs_worker AS worker
    WHERE worker.id = %(worker)s::bigint AND worker.drained_at IS NULL
      AND (%(version)s::xid IS NULL OR worker.xmin = %(version)s::xid AND NOT EXISTS (
        SELECT FROM auth_user AS person WHERE person.id = worker.owner_id AND NOT person.is_active))
      AND (NOT %(only_if_idle)s::boolean OR NOT EXISTS (
        SELECT FROM jobs_live WHERE lease_secret IS NOT NULL AND worker_id = %(worker)s::bigint))
), polled AS MATERIALIZED (
    SELECT queue.name, queue.place, me.*, (opened.it).*, (opened.it).fair <> 'off' AND me.owner_id IS NULL AS is_fair
    FROM me CROSS JOIN (
        SELECT queue.name, named.place
        FROM unnest(%(queues)s::text[]) WITH ORDINALITY AS named (name, place)
        JOIN jobs_queue AS queue ON queue.name = named.name AND queue.paused_at IS NULL
        WHERE EXISTS (SELECT FROM jobs_mark AS mark WHERE mark.queue = queue.name AND mark.at <= statement_timestamp())
        ORDER BY queue.name) AS queue
    CROSS JOIN LATERAL (SELECT jobs_open(queue.name, NOT %(only_if_idle)s::boolean) AS it OFFSET 0) AS opened
), picked AS MATERIALIZED (
    SELECT pick.*
    FROM (SELECT *, least(room, %(limit)s::bigint) AS most FROM polled ORDER BY place) AS polled
    CROSS JOIN LATERAL (
        SELECT fair.*
        FROM jobs_pick_of_fair(
            polled.name, polled.fair, polled.most, %(worker)s::bigint, polled.satisfies, %(head_start_s)s::float8,
            %(alive_s)s::float8, %(grace_s)s::float8, cardinality(%(queues)s::text[]) > 1) AS fair
        WHERE polled.is_fair
        UNION ALL
        SELECT pick.* FROM (
            (SELECT mark.id, mark.lane_id, mark.at, mark.requirement_id, mark.required_id, mark.avoid, mark.key_id
             FROM jobs_mark AS mark
             WHERE polled.owner_id IS NULL AND mark.queue = polled.name AND mark.at <= statement_timestamp()
               AND (mark.share = 0 OR NOT polled.is_fair)
             ORDER BY mark.priority DESC, mark.at, mark.id LIMIT %(lanes)s::bigint)
            UNION ALL
            SELECT mark.id, mark.lane_id, mark.at, mark.requirement_id, mark.required_id, mark.avoid, mark.key_id
            FROM jobs_marks_of(polled.name, polled.owner_id, polled.groups) AS mark WHERE polled.owner_id IS NOT NULL) AS lane
        CROSS JOIN LATERAL (
            SELECT takes.until, CASE WHEN lane.key_id <> 0 AND takes.until > '-infinity' THEN jobs_key_room(lane.key_id) END AS room
            FROM (SELECT jobs_takes_lane(
                      lane.requirement_id, lane.required_id, lane.avoid, %(worker)s::bigint, polled.satisfies,
                      %(head_start_s)s::float8, %(alive_s)s::float8, %(grace_s)s::float8) AS until OFFSET 0) AS takes) AS takes
        CROSS JOIN LATERAL (
            SELECT live.ctid AS tid, lane.key_id, takes.room AS key_room FROM jobs_live AS live
            WHERE live.lease_secret IS NULL AND live.lane_id = lane.lane_id
              AND live.run_at >= lane.at AND live.run_at <= takes.until
              AND (live.expires_at IS NULL OR live.expires_at > statement_timestamp() OR live.confirmed_fence > 0)
            ORDER BY live.run_at, live.job_id
            LIMIT least(polled.most, takes.room) FOR UPDATE SKIP LOCKED) AS pick
        WHERE lane.id = (SELECT first.id FROM jobs_mark AS first
                         WHERE first.lane_id = lane.lane_id ORDER BY first.at, first.id LIMIT 1)
        LIMIT polled.most) AS pick
    LIMIT %(limit)s::bigint
), claimed AS (
    UPDATE jobs_live AS live
    SET fence = live.fence + 1, request = %(request)s::uuid,
        lease_secret = (%(secrets)s::uuid[])[array_position(ARRAY(SELECT tid FROM picked), live.ctid)],
        lease_expires_at = statement_timestamp() + make_interval(secs => %(confirm_s)s::float8),
        deadline_at = statement_timestamp() + CASE WHEN abs(live.timeout_s) < 1e9 THEN make_interval(secs => live.timeout_s) END,
        worker_id = %(worker)s::bigint, worker_name = %(worker_name)s::text, claimed_at = statement_timestamp(),
        counted_in = CASE WHEN live.key_id IS NOT NULL OR live.queue = ANY (ARRAY(SELECT name FROM polled WHERE room IS NOT NULL OR fair <> 'off'))
                          THEN live.queue END,
        next_seq = 0, progress = NULL, detail = NULL,
        earlier_output_bytes = live.earlier_output_bytes + live.output_bytes, output_bytes = 0
    WHERE live.ctid = ANY (ARRAY(
              SELECT tid FROM picked WHERE key_room IS NULL OR key_room >= array_position(ARRAY(
                  SELECT same.tid FROM picked AS same WHERE same.key_id = picked.key_id), tid)))
      AND live.lease_expires_at IS NULL
    RETURNING live.job_id, live.kind, live.queue, live.fence, live.lease_secret, live.lease_expires_at, live.failures,
              live.lane_id, live.key_id, live.counted_in, live.in_flow, live.has_checkpoint, array_position(%(secrets)s::uuid[], live.lease_secret) AS pick_no
)
SELECT claimed.job_id AS id, claimed.kind, claimed.queue, claimed.fence, claimed.lease_secret, claimed.lease_expires_at,
       claimed.failures + 1 AS attempt, record.max_attempts, record.retry_when_lost, claimed.lane_id,
       claimed.counted_in IS NOT NULL AS is_counted, claimed.key_id IS NOT NULL AS has_key,
       claimed.counted_in IS NOT NULL AND (claimed.key_id IS NOT NULL OR claimed.queue = ANY (ARRAY(
           SELECT name FROM polled WHERE room IS NOT NULL))) AS has_ceiling, claimed.in_flow, claimed.has_checkpoint,
       record.payload, record.traceparent, record.inputs, EXISTS (SELECT FROM picked) AS was_picked,
       CASE WHEN claimed.in_flow AND claimed.job_id = (SELECT job_id FROM claimed WHERE in_flow LIMIT 1)  -- 4 us a call
            THEN jobs_came_after(
                ARRAY(SELECT job_id FROM claimed WHERE in_flow), claimed.job_id, %(results_bytes)s::bigint) END AS after
FROM me LEFT JOIN claimed ON true LEFT JOIN LATERAL (
    SELECT job.max_attempts, job.retry_when_lost, job.payload::text AS payload, job.traceparent, job.inputs::text AS inputs
    FROM jobs_job AS job WHERE job.id = claimed.job_id OFFSET 0) AS record ON true
ORDER BY claimed.pick_no
