-- For the notifier: per interest (queues, and whose jobs), how many jobs could be claimed now, counted up to a limit,
-- and when the next one becomes due within the horizon. One statement for all the interests of a process.
-- An interest with owner null serves everybody; a member's owned and shared jobs are counted each by its own index.
-- The counts are ordered as their indexes are: a bare LIMIT invites a scan of the table for a queue with nothing in it.
-- Where the caller gives ranges (docs/adr/0036) of a queue, or of somebody's jobs in it, the jobs that hide from nobody
-- are counted in these alone.
-- The queue * stands for every queue. Who failed a job is not looked at here: that is for the claim.
-- What jobs require of labels is: `satisfies` is what the waiting worker satisfies. The sets that wait in a queue are
-- jumped over (marker), and those that it takes counted, for a head start where it lacks what is preferred alone.
WITH RECURSIVE interest AS MATERIALIZED (
    SELECT place, string_to_array(queues, ',') AS queues, owner_id, wanted, satisfies::integer[] AS satisfies
    FROM unnest(%(queues)s::text[], %(owner)s::integer[], %(wanted)s::bigint[], %(satisfies)s::text[])
         WITH ORDINALITY AS i (queues, owner_id, wanted, satisfies, place)
), polled AS MATERIALIZED (
    SELECT interest.place, interest.owner_id, interest.wanted, interest.satisfies, queue.name,
           CASE WHEN queue.ceiling IS NULL THEN interest.wanted ELSE (
               SELECT least(greatest(queue.ceiling - count(slot.job_id), 0), interest.wanted)
               FROM jobs_slot AS slot WHERE slot.queue_id = queue.name) END AS room
    FROM interest JOIN jobs_queue AS queue
      ON queue.paused_at IS NULL AND (queue.name = ANY (interest.queues) OR '*' = ANY (interest.queues))
), marker (name, n) AS (
    SELECT DISTINCT name, -2147483649 FROM polled
    UNION ALL
    SELECT marker.name, further.n
    FROM marker CROSS JOIN LATERAL (
        SELECT job.excluded_workers[1] AS n FROM jobs_job AS job
        WHERE job.status = 'pending' AND job.queue = marker.name
          AND job.excluded_workers > ARRAY[marker.n, 9223372036854775807] AND job.excluded_workers < '{0}'
        ORDER BY job.excluded_workers LIMIT 1) AS further
), takes AS MATERIALIZED (
    SELECT polled.place, polled.name, polled.owner_id, polled.wanted, polled.room, marker.n, one.until
    FROM polled JOIN marker ON marker.name = polled.name AND marker.n > -2147483649
    CROSS JOIN LATERAL (
        SELECT jobs_takes_until(ARRAY[marker.n], polled.satisfies, %(head_start_s)s::float8, %(alive_s)s::float8)
        AS until) AS one
    WHERE one.until IS NOT NULL
), whose (name, owner_id, group_id) AS MATERIALIZED (
    SELECT name, owner_id, NULL::integer FROM polled
    UNION
    SELECT polled.name, NULL, membership.group_id
    FROM polled JOIN auth_user_groups AS membership ON membership.user_id = polled.owner_id
), bounds (name, owner_id, group_id, low, high, since) AS MATERIALIZED (
    SELECT * FROM unnest(%(range_of)s::text[], %(range_owner)s::integer[], %(range_group)s::integer[],
                         %(low)s::smallint[], %(high)s::smallint[], %(since)s::timestamptz[])
), scan_range (name, owner_id, group_id, low, high, since) AS MATERIALIZED (
    SELECT name, owner_id, group_id, low, high,
           least(since, statement_timestamp() - make_interval(secs => %(margin_s)s::float8))
    FROM bounds
    UNION ALL
    SELECT name, owner_id, group_id, -32767::smallint, 32767::smallint, '-infinity'::timestamptz
    FROM whose
    WHERE NOT EXISTS (
        SELECT FROM bounds
        WHERE bounds.name = whose.name AND bounds.owner_id IS NOT DISTINCT FROM whose.owner_id
          AND bounds.group_id IS NOT DISTINCT FROM whose.group_id)
), available AS (
    SELECT polled.place,
           CASE WHEN polled.owner_id IS NULL THEN (
               SELECT count(*) FROM (
                   SELECT FROM (
                       SELECT 1 FROM scan_range CROSS JOIN LATERAL (
                           SELECT FROM jobs_job AS job
                           WHERE job.status = 'pending' AND job.queue = polled.name AND job.excluded_workers = '{}'
                             AND job.priority BETWEEN scan_range.low AND scan_range.high
                             AND job.run_at >= scan_range.since AND job.run_at <= statement_timestamp()
                           ORDER BY job.priority DESC, job.run_at
                           LIMIT polled.room) AS open_job
                       WHERE scan_range.name = polled.name
                         AND scan_range.owner_id IS NULL AND scan_range.group_id IS NULL
                       UNION ALL
                       (SELECT 1 FROM jobs_job AS job
                        WHERE job.status = 'pending' AND job.queue = polled.name AND job.excluded_workers > '{0}'
                          AND job.run_at <= statement_timestamp()
                        ORDER BY job.excluded_workers, job.priority DESC, job.run_at
                        LIMIT polled.room)) AS open_or_excluding
                   LIMIT polled.room) AS any_job)
           ELSE (
               SELECT count(*) FROM (
                   SELECT FROM (
                       SELECT 1 FROM scan_range CROSS JOIN LATERAL (
                           SELECT FROM jobs_job AS job
                           WHERE job.ended_at IS NULL AND job.lease_secret IS NULL AND job.queue = polled.name
                             AND job.owner_id = polled.owner_id AND job.excluded_workers = '{}'
                             AND job.priority BETWEEN scan_range.low AND scan_range.high
                             AND job.run_at >= scan_range.since AND job.run_at <= statement_timestamp()
                           ORDER BY job.priority DESC, job.run_at
                           LIMIT polled.room) AS open_owned
                       WHERE scan_range.name = polled.name AND scan_range.owner_id = polled.owner_id
                       UNION ALL
                       (SELECT 1 FROM jobs_job AS job
                        WHERE job.ended_at IS NULL AND job.lease_secret IS NULL AND job.queue = polled.name
                          AND job.owner_id = polled.owner_id AND job.excluded_workers > '{0}'
                          AND job.run_at <= statement_timestamp()
                        ORDER BY job.excluded_workers, job.priority DESC, job.run_at
                        LIMIT polled.room)
                       UNION ALL
                       SELECT 1 FROM auth_user_groups AS membership
                       JOIN scan_range ON scan_range.name = polled.name AND scan_range.group_id = membership.group_id
                       CROSS JOIN LATERAL (
                           SELECT FROM jobs_job AS job
                           WHERE job.ended_at IS NULL AND job.lease_secret IS NULL AND job.queue = polled.name
                             AND job.group_id = membership.group_id AND job.excluded_workers = '{}'
                             AND job.priority BETWEEN scan_range.low AND scan_range.high
                             AND job.run_at >= scan_range.since AND job.run_at <= statement_timestamp()
                             AND job.owner_id IS DISTINCT FROM polled.owner_id
                           ORDER BY job.priority DESC, job.run_at
                           LIMIT polled.room) AS open_shared
                       WHERE membership.user_id = polled.owner_id
                       UNION ALL
                       SELECT 1 FROM auth_user_groups AS membership CROSS JOIN LATERAL (
                           SELECT FROM jobs_job AS job
                           WHERE job.ended_at IS NULL AND job.lease_secret IS NULL AND job.queue = polled.name
                             AND job.group_id = membership.group_id AND job.excluded_workers > '{0}'
                             AND job.run_at <= statement_timestamp()
                             AND job.owner_id IS DISTINCT FROM polled.owner_id
                           ORDER BY job.excluded_workers, job.priority DESC, job.run_at
                           LIMIT polled.room) AS excluding_shared
                       WHERE membership.user_id = polled.owner_id) AS owned_or_shared
                   LIMIT polled.room) AS scoped_job)
           END AS jobs,
           (SELECT min(job.run_at) FROM jobs_job AS job
            WHERE job.status = 'pending' AND job.queue = polled.name
              AND job.run_at > statement_timestamp()
              AND job.run_at <= statement_timestamp() + make_interval(secs => %(horizon_s)s::float8)) AS next_due_at
    FROM polled
    UNION ALL
    SELECT takes.place, (
               SELECT count(*) FROM (
                   SELECT FROM (
                       (SELECT 1 FROM jobs_job AS job
                        WHERE takes.owner_id IS NULL AND job.status = 'pending' AND job.queue = takes.name
                          AND job.excluded_workers >= ARRAY[takes.n] AND job.excluded_workers < ARRAY[takes.n + 1]
                          AND job.run_at <= statement_timestamp() AND job.run_at < takes.until
                        ORDER BY job.excluded_workers, job.priority DESC, job.run_at LIMIT takes.room)
                       UNION ALL
                       (SELECT 1 FROM jobs_job AS job
                        WHERE job.ended_at IS NULL AND job.lease_secret IS NULL AND job.queue = takes.name AND job.owner_id = takes.owner_id
                          AND job.excluded_workers >= ARRAY[takes.n] AND job.excluded_workers < ARRAY[takes.n + 1]
                          AND job.run_at <= statement_timestamp() AND job.run_at < takes.until
                        ORDER BY job.excluded_workers, job.priority DESC, job.run_at LIMIT takes.room)
                       UNION ALL
                       SELECT 1 FROM auth_user_groups AS membership CROSS JOIN LATERAL (
                           SELECT FROM jobs_job AS job
                           WHERE job.ended_at IS NULL AND job.lease_secret IS NULL AND job.queue = takes.name
                             AND job.group_id = membership.group_id
                             AND job.excluded_workers >= ARRAY[takes.n] AND job.excluded_workers < ARRAY[takes.n + 1]
                             AND job.run_at <= statement_timestamp() AND job.run_at < takes.until
                             AND job.owner_id IS DISTINCT FROM takes.owner_id
                           ORDER BY job.excluded_workers, job.priority DESC, job.run_at LIMIT takes.room) AS shared
                       WHERE membership.user_id = takes.owner_id) AS its
                   LIMIT takes.room) AS any_of_them),
           CASE WHEN takes.until < 'infinity' THEN (
               SELECT min(job.run_at) + make_interval(secs => %(head_start_s)s::float8) FROM jobs_job AS job
               WHERE job.status = 'pending' AND job.queue = takes.name
                 AND job.excluded_workers >= ARRAY[takes.n] AND job.excluded_workers < ARRAY[takes.n + 1]
                 AND job.run_at >= takes.until
                 AND job.run_at <= takes.until + make_interval(secs => %(horizon_s)s::float8)) END
    FROM takes
)
SELECT interest.place, least(coalesce(sum(available.jobs), 0), max(interest.wanted))::bigint AS jobs,
       CASE WHEN min(available.next_due_at) IS NOT NULL  -- greatest() takes null for nothing and would say 0
            THEN greatest(extract(epoch FROM min(available.next_due_at) - statement_timestamp()), 0)::float8
       END AS next_due_in_s
FROM interest LEFT JOIN available USING (place)
GROUP BY interest.place ORDER BY interest.place
