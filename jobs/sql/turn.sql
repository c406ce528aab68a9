-- When it is a waiting job's turn in a fair queue, if nothing ends until then: what is taken before it, counted up to a bound.
-- As jobs_pick_fairly has it: all of a higher priority, which their shares will have been served with; and of its own
-- priority what is before it in its share, and of each other share the jobs that would be taken while that has been served
-- less by its weight.
WITH mine AS MATERIALIZED (
    SELECT live.job_id, live.run_at, queue.name AS queue, queue.fair, lane.priority, lane.share,
           jobs_usual_run(queue.name) AS usual
    FROM jobs_live AS live JOIN jobs_lane AS lane ON lane.id = live.lane_id
    JOIN jobs_queue AS queue ON queue.name = lane.queue AND queue.fair = lane.fair
    WHERE live.job_id = %(job)s::bigint AND live.lease_secret IS NULL AND lane.share <> 0
), running AS MATERIALIZED (
    SELECT jobs_share(mine.fair, live.owner_id, live.group_id, live.key_id) AS share, count(*) AS jobs,
           sum(greatest(extract(epoch FROM statement_timestamp() - live.claimed_at)::float8, mine.usual)) AS seconds
    FROM mine JOIN jobs_live AS live ON live.counted_in = mine.queue GROUP BY 1
), lane AS MATERIALIZED (
    SELECT mark.share, mark.priority, mark.lane_id, min(mark.at) AS at, min(mark.served) AS served
    FROM mine JOIN jobs_mark AS mark ON mark.queue = mine.queue AND mark.share <> 0 AND mark.priority >= mine.priority
     AND mark.at <= statement_timestamp() GROUP BY 1, 2, 3
), higher AS MATERIALIZED (
    SELECT due.share, count(*) AS jobs FROM (
        SELECT lane.share FROM mine JOIN lane ON lane.priority > mine.priority
        CROSS JOIN LATERAL jobs_due(lane.lane_id, lane.at, statement_timestamp(), %(limit)s::bigint)
        LIMIT %(limit)s::bigint) AS due
    GROUP BY 1
), share AS MATERIALIZED (
    SELECT one.share, one.at, coalesce(running.jobs, 0) AS runs, weight.amount AS weight,
           one.served + coalesce((SELECT sum(noted.seconds) FROM mine JOIN jobs_charge AS noted
                                  ON noted.queue = mine.queue AND noted.share = one.share) / weight.amount, 0)
           + (coalesce(running.seconds, 0) + coalesce(higher.jobs, 0) * (SELECT usual FROM mine)) / weight.amount AS load
    FROM (SELECT lane.share, min(lane.served) AS served, min(lane.at) AS at
          FROM mine JOIN lane ON lane.priority = mine.priority GROUP BY 1) AS one
    CROSS JOIN LATERAL (SELECT jobs_weight_of((SELECT fair FROM mine), one.share)::float8 AS amount OFFSET 0) AS weight
    LEFT JOIN running ON running.share = one.share LEFT JOIN higher ON higher.share = one.share
), own AS MATERIALIZED (
    SELECT share.*, own.jobs, share.load + own.jobs * mine.usual / share.weight AS load_then
    FROM mine JOIN share ON share.share = mine.share CROSS JOIN LATERAL (
        SELECT count(*) AS jobs FROM (
            SELECT FROM lane CROSS JOIN LATERAL jobs_due(
                lane.lane_id, lane.at, least(mine.run_at, statement_timestamp()), %(limit)s::bigint) AS theirs
            WHERE lane.share = mine.share AND lane.priority = mine.priority
              AND (theirs.run_at, theirs.job_id) < (mine.run_at, mine.job_id) LIMIT %(limit)s::bigint) AS before) AS own
), other AS MATERIALIZED (
    SELECT share.share, theirs.jobs
    FROM mine CROSS JOIN own JOIN share ON share.share <> mine.share CROSS JOIN LATERAL (
        SELECT greatest(ceil((own.load_then - share.load) * share.weight / mine.usual - 1e-6), 0)
               + CASE WHEN abs(own.load_then - share.load) < 1e-9 AND (share.at, share.share) < (own.at, own.share)
                      THEN 1 ELSE 0 END AS turns) AS one
    CROSS JOIN LATERAL (
        SELECT count(*) AS jobs FROM (
            SELECT FROM lane
            CROSS JOIN LATERAL jobs_due(lane.lane_id, lane.at, statement_timestamp(), %(limit)s::bigint) AS due
            WHERE lane.share = share.share AND lane.priority = mine.priority
            LIMIT least(one.turns, %(limit)s::float8)::bigint) AS before) AS theirs
)
SELECT mine.fair, own.runs AS running, own.jobs AS own_jobs, (SELECT count(*) FROM other WHERE jobs > 0) AS sharers,
       least(own.jobs + (SELECT coalesce(sum(jobs), 0) FROM other) + (SELECT coalesce(sum(jobs), 0) FROM higher),
             %(limit)s::bigint)::bigint AS jobs,
       ARRAY(SELECT coalesce(person.username, company.name, key.name, 'nobody')
             FROM other
             LEFT JOIN auth_user AS person ON person.id = -1 - other.share
             LEFT JOIN auth_group AS company ON company.id = other.share AND mine.fair = 'group'
             LEFT JOIN jobs_concurrencykey AS key ON key.id = other.share AND mine.fair = 'key'
             WHERE other.jobs > 0 ORDER BY other.jobs DESC, 1 LIMIT %(named)s::bigint) AS names
FROM mine CROSS JOIN own
