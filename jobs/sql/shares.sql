-- Who has a share of a fair queue, those that run the most of it first, then those that wait for longest: what runs, and what
-- waits and is due, counted up to a bound. `others`: how many more there are.
WITH queue AS MATERIALIZED (
    SELECT name, fair FROM jobs_queue WHERE name = %(queue)s::text AND fair <> 'off'
), running AS MATERIALIZED (
    SELECT jobs_share(queue.fair, live.owner_id, live.group_id, live.key_id) AS share, count(*) AS jobs
    FROM queue JOIN jobs_live AS live ON live.counted_in = queue.name GROUP BY 1
), lane AS MATERIALIZED (
    SELECT mark.share, mark.lane_id, min(mark.at) AS at, min(mark.served) AS served
    FROM queue JOIN jobs_mark AS mark ON mark.queue = queue.name AND mark.share <> 0 AND mark.at <= statement_timestamp()
    GROUP BY 1, 2
), share AS (
    SELECT share, coalesce(running.jobs, 0) AS runs, waiting.served, count(*) OVER () AS amount
    FROM (SELECT lane.share, min(lane.served) AS served FROM lane GROUP BY 1) AS waiting
    FULL JOIN running USING (share)
    ORDER BY runs DESC, served, share LIMIT %(limit)s::bigint
)
SELECT coalesce(person.username, company.name, key.name, '') AS name, company.id IS NOT NULL AS is_group, share.runs AS running,
       jobs_weight_of((SELECT fair FROM queue), share.share) AS weight, share.amount - count(*) OVER () AS others, (
           SELECT count(*) FROM (
               SELECT FROM lane CROSS JOIN LATERAL jobs_due(lane.lane_id, lane.at, statement_timestamp(), %(most)s::bigint)
               WHERE lane.share = share.share LIMIT %(most)s::bigint) AS due) AS waiting
FROM share
LEFT JOIN auth_user AS person ON person.id = -1 - share.share
LEFT JOIN auth_group AS company ON company.id = share.share AND (SELECT fair FROM queue) = 'group'
LEFT JOIN jobs_concurrencykey AS key ON key.id = share.share AND (SELECT fair FROM queue) = 'key'
ORDER BY share.runs DESC, share.served, share.share
