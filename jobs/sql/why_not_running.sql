-- What stands between a waiting job and a worker: the facts, in one row and from one snapshot. Counting stops at the
-- given limit.
-- present: the live workers whose key allows the job's queue. able: those that may take the job, ask for its queue and are
-- not drained; at_once: they need not leave it to one with what it prefers. candidate: those of them that do not hold a job
-- where they steal; with the queues that each looks at before this one. All candidates that are alike in that, and in what
-- they may take, are one profile.
-- What a profile would take first is looked for as a claim does (claim.sql): lane by lane, of those that it may take from.
-- In the job's own queue what is due before the job is counted: in lanes of a higher priority, and what is earlier in those
-- of its own (own: where its own lane stands, and whether it is the first there; of a lane that is served before, the first
-- job is ahead in any case). Of the queues before it only those are named in which something is to be had.
WITH job AS MATERIALIZED (
    SELECT record.*, live.lane_id, live.key_id, live.run_at, live.fence, live.confirmed_fence, live.unconfirmed,
           coalesce(outcome.status, CASE WHEN live.lease_secret IS NULL THEN 'pending' ELSE 'in_progress' END) AS status,
           record.expires_at <= statement_timestamp() AND live.confirmed_fence = 0 AS expired,
           live.job_id IS NOT NULL AND live.lease_secret IS NULL AS waits, live.run_at > statement_timestamp() AS is_early,
           live.in_flow AND live.run_at = '9000-01-01 00:00:00+00' AS is_behind,
           coalesce(lane.avoid, '{}') AS avoid, coalesce(lane.priority, record.priority) AS level,
           live.run_at + make_interval(secs => %(grace_s)s::float8) AS excluded_until
    FROM jobs_job AS record LEFT JOIN jobs_live AS live ON live.job_id = record.id
    LEFT JOIN jobs_lane AS lane ON lane.id = live.lane_id
    LEFT JOIN jobs_outcome AS outcome ON outcome.job_id = record.id WHERE record.id = %(job)s::bigint
), present AS MATERIALIZED (
    SELECT worker.*, CASE WHEN '*' = ANY (worker.polled) THEN NULL ELSE worker.polled END AS named, facts.*,
           is_in_scope AND asks AND until IS NOT NULL AS may
    FROM job CROSS JOIN jobs_live_workers(%(alive_s)s::float8) AS worker CROSS JOIN LATERAL (
        SELECT worker.owner_id IS NULL OR coalesce(worker.owner_id = job.owner_id, false)
                   OR coalesce(job.group_id = ANY (worker.groups), false) AS is_in_scope,
               worker.polled IS NULL OR worker.polled && ARRAY[job.queue, '*']::varchar[] AS asks,
               jobs_takes_until(coalesce(job.requirement_id, 0), worker.satisfies, %(head_start_s)s::float8,
                                %(alive_s)s::float8) AS until,
               worker.id = ANY (job.avoid) AND job.excluded_until > statement_timestamp() AS is_excluded,
               job.queue = ANY (worker.queues) AS is_home OFFSET 0) AS facts
    WHERE job.waits AND (job.queue = ANY (worker.queues) OR worker.steals && ARRAY[job.queue, '*']::varchar[])
), able AS MATERIALIZED (
    SELECT present.*, EXISTS (
               SELECT FROM jobs_live AS held WHERE held.lease_secret IS NOT NULL AND held.worker_id = present.id) AS is_busy
    FROM present WHERE may AND NOT is_drained AND NOT is_excluded
), candidate AS MATERIALIZED (
    SELECT able.id, able.owner_id, able.groups, able.is_home, able.satisfies, able.is_busy, before.homes, before.others
    FROM job CROSS JOIN able CROSS JOIN LATERAL (
        SELECT coalesce(able.named, able.queues || able.steals || ARRAY(
            SELECT queue.name FROM jobs_queue AS queue WHERE '*' = ANY (able.steals) ORDER BY queue.name)) AS queues) AS list
    CROSS JOIN LATERAL (
        SELECT array_agg(DISTINCT name) FILTER (WHERE is_own AND (is_before OR NOT able.is_home)) AS homes,
               array_agg(DISTINCT name) FILTER (WHERE is_before AND NOT is_own AND NOT able.is_home) AS others
        FROM (SELECT one.name, one.name = ANY (able.queues) AS is_own,
                     one.place < array_position(list.queues, job.queue) AS is_before
              FROM unnest(list.queues) WITH ORDINALITY AS one (name, place)) AS one) AS before
    WHERE (able.is_home OR NOT able.is_busy) AND NOT job.expired IS TRUE AND NOT job.is_early
), open AS MATERIALIZED (
    SELECT queue.name FROM jobs_queue AS queue
    WHERE queue.name IN (SELECT unnest(homes || others) FROM candidate) AND queue.paused_at IS NULL
      AND (queue.ceiling IS NULL OR queue.ceiling > (SELECT count(*) FROM jobs_live WHERE counted_in = queue.name))
    UNION
    SELECT queue FROM job WHERE EXISTS (SELECT FROM candidate)
), lane AS MATERIALIZED (
    SELECT DISTINCT ON (mark.lane_id) mark.* FROM jobs_mark AS mark JOIN open ON open.name = mark.queue
    WHERE mark.at <= statement_timestamp() ORDER BY mark.lane_id, mark.at, mark.id
), own AS MATERIALIZED (
    SELECT lane.at, lane.id, coalesce((first.run_at, first.job_id) >= (job.run_at, job.id), true) AS is_first
    FROM job JOIN lane ON lane.lane_id = job.lane_id
    LEFT JOIN LATERAL jobs_due(lane.lane_id, lane.at, 'infinity', 1) AS first ON true
), profile AS MATERIALIZED (
    SELECT row_number() OVER () AS n, owner_id, groups, is_home, homes, others, satisfies, avoided, count(*) AS workers
    FROM (SELECT candidate.*, CASE WHEN candidate.id IN (SELECT unnest(avoid) FROM lane) THEN candidate.id END AS avoided
          FROM candidate) AS each
    GROUP BY owner_id, groups, is_home, homes, others, satisfies, avoided
), hit AS MATERIALIZED (
    SELECT profile.n, searched.name, searched.name = job.queue AS is_own, (
               SELECT count(*) FROM (
                   SELECT FROM lane CROSS JOIN LATERAL jobs_due(
                       lane.lane_id, lane.at, statement_timestamp() - CASE WHEN profile.avoided = ANY (lane.avoid)
                           THEN make_interval(secs => %(grace_s)s::float8) ELSE interval '0' END, least(
                           searched.most, CASE WHEN lane.key_id <> 0 THEN jobs_key_left(lane.key_id) END)) AS theirs
                   WHERE lane.queue = searched.name AND (searched.name <> job.queue OR lane.priority >= job.level)
                     AND (profile.owner_id IS NULL OR lane.owner_id = profile.owner_id OR lane.group_id = ANY (profile.groups))
                     AND (lane.required_id = 0 OR lane.required_id = ANY (profile.satisfies))
                     AND (searched.name <> job.queue OR lane.priority > job.level
                          OR (theirs.run_at, theirs.job_id) < (job.run_at, job.id)
                             AND (lane.lane_id = job.lane_id OR NOT own.is_first OR (lane.at, lane.id) < (own.at, own.id))
                          OR theirs.place = 1 AND lane.lane_id <> job.lane_id AND (lane.at, lane.id) < (own.at, own.id))
                   LIMIT searched.most) AS before) AS jobs
    FROM job CROSS JOIN profile LEFT JOIN own ON true CROSS JOIN LATERAL (
        SELECT open.name, CASE WHEN open.name = job.queue THEN %(limit)s::bigint ELSE 1 END AS most FROM open
        WHERE open.name = job.queue OR open.name = ANY (profile.homes) OR open.name = ANY (profile.others)) AS searched
), outlook AS MATERIALIZED (
    SELECT profile.is_home, profile.workers,
           coalesce(sum(hit.jobs) FILTER (WHERE hit.is_own), 0)::bigint AS ahead,
           array_agg(hit.name ORDER BY hit.name) FILTER (WHERE NOT hit.is_own) AS first,
           NOT profile.is_home AND coalesce(bool_or(hit.name = ANY (profile.homes)), false) AS is_at_home
    FROM profile LEFT JOIN hit ON hit.n = profile.n AND hit.jobs > 0 GROUP BY profile.n, profile.is_home, profile.workers
), best AS (
    SELECT * FROM outlook ORDER BY is_at_home, first IS NOT NULL, ahead LIMIT 1
)
SELECT job.status, job.queue, job.run_at, job.is_metered, job.limit_name, job.limit_until, job.excluded_until, job.expires_at,
       (SELECT living.job_id FROM jobs_uniquekey AS living WHERE living.follower_id = job.id) AS behind,
       CASE WHEN job.is_behind THEN (SELECT count(*) FROM jobs_edge AS edge WHERE edge.open_of = job.id) END AS after_count,
       ARRAY(SELECT edge.after_id FROM jobs_edge AS edge WHERE edge.open_of = job.id ORDER BY edge.after_id LIMIT 5) AS after,
       wait.*, (SELECT step.canceled_for_id FROM jobs_step AS step WHERE step.job_id = job.id) AS canceled_for,
       (SELECT step.parent_id FROM jobs_step AS step WHERE step.job_id = job.id) AS parent,
       coalesce(job.expired, false) AS expired, CASE WHEN job.confirmed_fence = 0 THEN
           extract(epoch FROM job.expires_at - statement_timestamp())::float8 END AS expires_in_s,
       job.status = 'in_progress' AND job.confirmed_fence < job.fence AS is_unconfirmed,
       CASE WHEN job.confirmed_fence < job.fence THEN job.unconfirmed ELSE 0 END AS unconfirmed,
       greatest(extract(epoch FROM job.run_at - statement_timestamp()), 0)::float8 AS due_in_s,
       greatest(extract(epoch FROM job.limit_until - statement_timestamp()), 0)::float8 AS limit_in_s,
       CASE WHEN job.level > job.priority THEN job.level END AS counts_as, hold.*,
       queue.paused_at, person.username AS paused_by, queue.ceiling, queue.fair,
       key.bound AS key_bound, key.paused_at AS key_paused_at, (
           SELECT username FROM auth_user WHERE auth_user.id = key.paused_by_id) AS key_paused_by, ARRAY(
           SELECT live.job_id FROM jobs_live AS live WHERE live.key_id = job.key_id AND live.lease_secret IS NOT NULL
           ORDER BY live.job_id) AS key_running, job.concurrency_key AS key,
       ARRAY(SELECT job_id FROM jobs_live WHERE counted_in = job.queue ORDER BY job_id) AS running,
       rollup.*, last.*, stealing.*,
       coalesce(requirement.requires, '{}') AS requires, coalesce(requirement.prefers, '{}') AS prefers,
       extract(epoch FROM job.run_at - statement_timestamp())::float8 + %(head_start_s)s::float8 AS head_start_in_s,
       (SELECT able.name FROM able WHERE able.id::text = requirement.prefers ->> '@worker') AS preferred_worker,
       EXISTS (SELECT FROM candidate WHERE NOT is_busy) AS is_free,
       coalesce(best.ahead, 0) AS ahead, coalesce(best.first, '{}') AS first
FROM job
LEFT JOIN jobs_queue AS queue ON queue.name = job.queue
LEFT JOIN jobs_concurrencykey AS key ON key.id = job.key_id
LEFT JOIN auth_user AS person ON person.id = queue.paused_by_id
LEFT JOIN LATERAL (
    SELECT owner.username AS owner, paused.paused_at AS owner_paused_at, (
               SELECT username FROM auth_user WHERE auth_user.id = paused.paused_by_id) AS owner_paused_by
    FROM jobs_pausedowner AS paused JOIN auth_user AS owner ON owner.id = paused.owner_id
    WHERE paused.owner_id = job.owner_id) AS hold ON true
LEFT JOIN best ON true
LEFT JOIN LATERAL (
    SELECT nullif(wait.signal, '') AS signal, nullif(wait.signal_key, '') AS signal_key, wait.until AS wait_until FROM jobs_suspension AS wait
    WHERE wait.job_id = job.id AND job.waits AND job.run_at = '9000-01-01 00:00:00+00' AND wait.taken_id IS NULL
      AND NOT wait.timed_out) AS wait ON true
LEFT JOIN jobs_requirement AS requirement ON requirement.id = job.requirement_id
CROSS JOIN (
    SELECT count(*) FILTER (WHERE NOT is_drained) AS servers,
           count(*) FILTER (WHERE NOT is_drained AND is_in_scope) AS in_scope,
           count(*) FILTER (WHERE NOT is_drained AND may) AS workers,
           count(*) FILTER (WHERE NOT is_drained AND may AND is_excluded) AS excluded_alive,
           coalesce(array_agg(id ORDER BY id) FILTER (WHERE NOT is_drained AND is_in_scope AND asks AND until IS NULL), '{}')
               AS lacking,
           coalesce(array_agg(id ORDER BY name, id) FILTER (WHERE is_drained AND may AND NOT is_excluded), '{}') AS drained_ids,
           coalesce(array_agg(name ORDER BY name, id) FILTER (WHERE is_drained AND may AND NOT is_excluded), '{}') AS drained
    FROM present) AS rollup
LEFT JOIN LATERAL (
    SELECT worker.name AS last_worker, worker.last_seen_at FROM jobs_worker AS worker
    WHERE job.waits AND rollup.servers = 0
      AND worker.last_seen_at <= statement_timestamp() - make_interval(secs => %(alive_s)s::float8)
      AND (job.queue = ANY (worker.queues) OR worker.steals && ARRAY[job.queue, '*']::varchar[])
      AND (worker.owner_id IS NULL OR worker.owner_id = job.owner_id OR EXISTS (
          SELECT FROM auth_user_groups AS membership
          WHERE membership.user_id = worker.owner_id AND membership.group_id = job.group_id))
    ORDER BY worker.last_seen_at DESC, worker.id LIMIT 1) AS last ON true
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE is_home) AS home_workers, count(*) FILTER (WHERE until > job.run_at) AS at_once,
           count(*) FILTER (WHERE is_busy AND NOT is_home) AS busy_stealers,
           (SELECT coalesce(sum(workers), 0)::bigint FROM outlook WHERE is_at_home) AS stealers_at_home
    FROM able) AS stealing
