-- What stands between a waiting job and a worker: the facts, in one row and from one snapshot. Counting stops at the
-- given limit.
-- lacking: it lacks a label that the job requires; at_once: it need not leave the job to one with what it prefers first.
-- present: the live workers whose key allows the job's queue; server: those of them that are not drained. candidate: those
-- that may take the job and ask for its queue, without those that steal only when idle and hold a job; with the queues that
-- each of them looks at before this one. All candidates that are alike in that, and in what they may take, are one profile.
-- What a profile would take first is looked for as a claim does (claim.sql): lane by lane, of those that it may take from.
-- In the job's own queue what is due before the job is counted: in lanes of a higher priority, and what is earlier in those
-- of its own (own: where its own lane stands, and whether it is the first there; of a lane that is served before, the first
-- job is ahead in any case). Of the queues before it only those are named in which something is to be had.
WITH job AS MATERIALIZED (
    SELECT stands.*, stands.expires_at <= statement_timestamp() AND stands.confirmed_fence = 0 AS expired,
           stands.status = 'pending' AS waits, stands.run_at > statement_timestamp() AS is_early,
           coalesce(lane.avoid, '{}') AS avoid, stands.run_at + make_interval(secs => %(grace_s)s::float8) AS excluded_until
    FROM (
        SELECT record.id, record.queue, record.priority, record.owner_id, record.group_id, record.requirement_id,
               record.expires_at, record.is_metered, record.limit_name, record.limit_until, live.lane_id,
               coalesce(outcome.status, CASE WHEN live.lease_secret IS NULL THEN 'pending' ELSE 'in_progress' END) AS status,
               coalesce(live.run_at, outcome.run_at) AS run_at, coalesce(live.fence, outcome.fence) AS fence,
               coalesce(live.confirmed_fence, outcome.confirmed_fence) AS confirmed_fence,
               coalesce(live.unconfirmed, 0) AS unconfirmed
        FROM jobs_job AS record LEFT JOIN jobs_live AS live ON live.job_id = record.id
        LEFT JOIN jobs_outcome AS outcome ON outcome.job_id = record.id WHERE record.id = %(job)s::bigint) AS stands
    LEFT JOIN jobs_lane AS lane ON lane.id = stands.lane_id
), present AS MATERIALIZED (
    SELECT worker.id, worker.name, worker.drained_at IS NOT NULL AS is_drained, worker.owner_id, worker.queues, worker.steals,
           CASE WHEN '*' = ANY (worker.polled_queues) THEN NULL ELSE worker.polled_queues END AS named,
           worker.polled_queues IS NULL OR worker.polled_queues && ARRAY[job.queue, '*']::varchar[] AS asks,
           job.queue = ANY (worker.queues) AS is_home, worker.id = ANY (job.avoid) AND job.excluded_until > statement_timestamp() AS is_excluded,
           worker.satisfies, job.requirement_id IS NOT NULL AND takes.until IS NULL AS is_lacking,
           takes.until <= job.run_at AS is_later,
           worker.owner_id IS NULL OR worker.owner_id = job.owner_id OR EXISTS (
               SELECT FROM auth_user_groups AS membership
               WHERE membership.user_id = worker.owner_id AND membership.group_id = job.group_id) AS is_in_scope
    FROM job JOIN jobs_worker AS worker
      ON job.waits AND worker.revoked_at IS NULL
     AND worker.last_seen_at > statement_timestamp() - make_interval(secs => %(alive_s)s::float8)
     AND (job.queue = ANY (worker.queues) OR worker.steals && ARRAY[job.queue, '*']::varchar[])
    LEFT JOIN auth_user AS person ON person.id = worker.owner_id
    LEFT JOIN LATERAL (
        SELECT jobs_takes_until(job.requirement_id, worker.satisfies, %(head_start_s)s::float8,
                                %(alive_s)s::float8) AS until WHERE job.requirement_id IS NOT NULL) AS takes ON true
    WHERE coalesce(person.is_active, true)
), server AS MATERIALIZED (
    SELECT * FROM present WHERE NOT is_drained
), able AS MATERIALIZED (
    SELECT server.*, NOT is_home AND EXISTS (
               SELECT FROM jobs_live AS held WHERE held.lease_secret IS NOT NULL AND held.worker_id = server.id) AS is_busy
    FROM server WHERE is_in_scope AND asks AND NOT is_excluded AND NOT is_lacking
), candidate AS MATERIALIZED (
    SELECT able.id, able.owner_id, able.is_home, able.satisfies, ARRAY(
               SELECT DISTINCT one.name FROM unnest(coalesce(able.named, able.queues)) WITH ORDINALITY AS one (name, place)
               WHERE one.name = ANY (able.queues)
                 AND (NOT able.is_home OR one.place < array_position(coalesce(able.named, able.queues), job.queue))
               ORDER BY one.name) AS homes,
           CASE WHEN able.is_home THEN '{}' WHEN able.named IS NULL AND job.queue <> ALL (able.steals) THEN ARRAY(
               SELECT one.name FROM unnest(able.steals) AS one (name) WHERE one.name <> ALL (able.queues)
               UNION
               SELECT queue.name FROM jobs_queue AS queue WHERE queue.name < job.queue AND queue.name <> ALL (able.queues)
               ORDER BY name)
           ELSE ARRAY(
               SELECT DISTINCT one.name FROM unnest(coalesce(able.named, able.steals)) WITH ORDINALITY AS one (name, place)
               WHERE one.name <> ALL (able.queues)
                 AND one.place < array_position(coalesce(able.named, able.steals), job.queue)
               ORDER BY one.name) END AS others
    FROM job CROSS JOIN able WHERE NOT able.is_busy AND NOT job.expired IS TRUE AND NOT job.is_early
), open AS MATERIALIZED (
    SELECT queue.name FROM jobs_queue AS queue
    WHERE queue.name IN (SELECT unnest(homes || others) FROM candidate) AND queue.paused_at IS NULL
      AND (queue.ceiling IS NULL OR queue.ceiling > (
          SELECT count(*) FROM jobs_live WHERE counted_in = queue.name))
    UNION
    SELECT queue FROM job WHERE EXISTS (SELECT FROM candidate)
), lane AS MATERIALIZED (
    SELECT DISTINCT ON (mark.lane_id) mark.* FROM jobs_mark AS mark JOIN open ON open.name = mark.queue
    WHERE mark.at <= statement_timestamp() ORDER BY mark.lane_id, mark.at, mark.id
), own AS MATERIALIZED (
    SELECT lane.at, lane.id, coalesce((first.run_at, first.id) >= (job.run_at, job.id), true) AS is_first
    FROM job JOIN lane ON lane.lane_id = job.lane_id
    LEFT JOIN LATERAL (
        SELECT other.run_at, other.job_id AS id FROM jobs_live AS other
        WHERE other.lease_secret IS NULL AND other.lane_id = lane.lane_id AND other.run_at >= lane.at
          AND (other.expires_at IS NULL OR other.expires_at > statement_timestamp() OR other.confirmed_fence > 0)
        ORDER BY other.run_at, other.job_id LIMIT 1) AS first ON true
), profile AS MATERIALIZED (
    SELECT row_number() OVER () AS n, alike.*, ARRAY(
               SELECT membership.group_id FROM auth_user_groups AS membership WHERE membership.user_id = alike.owner_id) AS groups
    FROM (
        SELECT owner_id, is_home, homes, others, satisfies, avoided, count(*) AS workers
        FROM (SELECT candidate.*, CASE WHEN candidate.id IN (SELECT unnest(avoid) FROM lane) THEN candidate.id END AS avoided
              FROM candidate) AS each
        GROUP BY owner_id, is_home, homes, others, satisfies, avoided) AS alike
), hit AS MATERIALIZED (
    SELECT profile.n, searched.name, searched.name = job.queue AS is_own, (
               SELECT count(*) FROM (
                   SELECT FROM lane CROSS JOIN LATERAL (
                       SELECT other.run_at, other.job_id AS id, row_number() OVER (ORDER BY other.run_at, other.job_id) AS place
                       FROM jobs_live AS other
                       WHERE other.lease_secret IS NULL AND other.lane_id = lane.lane_id AND other.run_at >= lane.at
                         AND other.run_at <= statement_timestamp()
                           - CASE WHEN profile.avoided = ANY (lane.avoid) THEN make_interval(secs => %(grace_s)s::float8)
                                  ELSE interval '0' END
                         AND (other.expires_at IS NULL OR other.expires_at > statement_timestamp() OR other.confirmed_fence > 0)
                       ORDER BY other.run_at, other.job_id LIMIT searched.most) AS theirs
                   WHERE lane.queue = searched.name AND (searched.name <> job.queue OR lane.priority >= job.priority)
                     AND (profile.owner_id IS NULL OR lane.owner_id = profile.owner_id OR lane.group_id = ANY (profile.groups))
                     AND (lane.required_id = 0 OR lane.required_id = ANY (profile.satisfies))
                     AND (searched.name <> job.queue OR lane.priority > job.priority
                          OR (theirs.run_at, theirs.id) < (job.run_at, job.id)
                             AND (lane.lane_id = job.lane_id OR NOT own.is_first OR (lane.at, lane.id) < (own.at, own.id))
                          OR theirs.place = 1 AND lane.lane_id <> job.lane_id AND (lane.at, lane.id) < (own.at, own.id))
                   LIMIT searched.most) AS before) AS jobs
    FROM job CROSS JOIN profile LEFT JOIN own ON true CROSS JOIN LATERAL (
        SELECT open.name, CASE WHEN open.name = job.queue THEN %(limit)s::bigint ELSE 1 END AS most FROM open
        WHERE open.name = job.queue OR open.name = ANY (profile.homes) OR open.name = ANY (profile.others)) AS searched
), outlook AS MATERIALIZED (
    SELECT profile.is_home, profile.workers,
           coalesce((SELECT jobs FROM hit WHERE hit.n = profile.n AND hit.is_own), 0) AS ahead,
           ARRAY(SELECT hit.name FROM hit WHERE hit.n = profile.n AND NOT hit.is_own AND hit.jobs > 0
                 ORDER BY hit.name) AS first,
           NOT profile.is_home AND EXISTS (
               SELECT FROM hit WHERE hit.n = profile.n AND hit.jobs > 0 AND hit.name = ANY (profile.homes)) AS is_at_home
    FROM profile
), best AS (
    SELECT * FROM outlook ORDER BY is_at_home, cardinality(first) > 0, ahead LIMIT 1
)
SELECT job.status, job.queue, job.run_at, job.is_metered, job.excluded_until, coalesce(job.expired, false) AS expired, job.expires_at,
       CASE WHEN job.confirmed_fence = 0 THEN extract(epoch FROM job.expires_at - statement_timestamp())::float8 END AS expires_in_s,
       job.status = 'in_progress' AND job.confirmed_fence < job.fence AS is_unconfirmed,
       CASE WHEN job.confirmed_fence < job.fence THEN job.unconfirmed ELSE 0 END AS unconfirmed,
       greatest(extract(epoch FROM job.run_at - statement_timestamp()), 0)::float8 AS due_in_s,
       job.limit_name, job.limit_until,
       greatest(extract(epoch FROM job.limit_until - statement_timestamp()), 0)::float8 AS limit_in_s,
       queue.paused_at, person.username AS paused_by, queue.ceiling,
       ARRAY(SELECT held.job_id FROM jobs_live AS held
             WHERE held.counted_in = job.queue ORDER BY held.job_id) AS running,
       rollup.*, draining.*, last.*, stealing.*,
       coalesce(requirement.requires, '{}') AS requires, coalesce(requirement.prefers, '{}') AS prefers,
       greatest(extract(epoch FROM job.run_at - statement_timestamp())::float8 + %(head_start_s)s::float8, 0)
       AS head_start_in_s,
       EXISTS (SELECT FROM candidate WHERE NOT EXISTS (
           SELECT FROM jobs_live AS held WHERE held.lease_secret IS NOT NULL AND held.worker_id = candidate.id)) AS is_free,
       coalesce(best.ahead, 0) AS ahead, coalesce(best.first, '{}') AS first
FROM job
LEFT JOIN jobs_queue AS queue ON queue.name = job.queue
LEFT JOIN auth_user AS person ON person.id = queue.paused_by_id
LEFT JOIN best ON true
LEFT JOIN jobs_requirement AS requirement ON requirement.id = job.requirement_id
CROSS JOIN (
    SELECT count(*) AS servers, count(*) FILTER (WHERE is_in_scope) AS in_scope,
           count(*) FILTER (WHERE is_in_scope AND asks AND NOT is_lacking) AS workers,
           count(*) FILTER (WHERE is_in_scope AND asks AND NOT is_lacking AND is_excluded) AS excluded_alive,
           count(*) FILTER (WHERE is_in_scope AND asks AND NOT is_lacking AND NOT is_excluded AND is_home) AS home_workers,
           count(*) FILTER (WHERE is_in_scope AND asks AND NOT is_lacking AND NOT is_excluded AND NOT is_later IS TRUE) AS at_once,
           coalesce(array_agg(id ORDER BY id) FILTER (WHERE is_in_scope AND asks AND is_lacking), '{}') AS lacking
    FROM server) AS rollup
CROSS JOIN (
    SELECT coalesce(array_agg(id ORDER BY name, id), '{}') AS drained_ids, coalesce(array_agg(name ORDER BY name, id), '{}') AS drained
    FROM present WHERE is_drained AND is_in_scope AND asks AND NOT is_excluded AND NOT is_lacking) AS draining
LEFT JOIN LATERAL (
    SELECT worker.name AS last_worker, worker.last_seen_at FROM jobs_worker AS worker
    WHERE job.waits AND rollup.servers = 0
      AND worker.last_seen_at <= statement_timestamp() - make_interval(secs => %(alive_s)s::float8)
      AND (job.queue = ANY (worker.queues) OR worker.steals && ARRAY[job.queue, '*']::varchar[])
      AND (worker.owner_id IS NULL OR worker.owner_id = job.owner_id OR EXISTS (
          SELECT FROM auth_user_groups AS membership
          WHERE membership.user_id = worker.owner_id AND membership.group_id = job.group_id))
    ORDER BY worker.last_seen_at DESC, worker.id LIMIT 1) AS last ON true
CROSS JOIN (
    SELECT (SELECT count(*) FROM able WHERE is_busy) AS busy_stealers,
           (SELECT coalesce(sum(workers), 0)::bigint FROM outlook WHERE is_at_home) AS stealers_at_home) AS stealing
