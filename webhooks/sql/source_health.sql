-- How each source does: when its last delivery came; and of its newest `sample` deliveries, those of the last day: how
-- they stand, from coming in to their end (in seconds, of those that no replay and no repeat touched), and how long
-- after the moment in the body they came, which shows a clock that is off as well as a sender that is late. "At least and
-- at most" is "equals" in words that lead to the index by source alone: for a source of which there is nothing the planner
-- would else walk through all deliveries by id.
SELECT listed.name AS source, max(newest.received_at) AS last_at,
       count(*) FILTER (WHERE newest.is_fresh) AS arrived,
       count(*) FILTER (WHERE newest.is_fresh) >= %(sample)s AS has_more,
       count(*) FILTER (WHERE newest.is_fresh AND newest.status IN ('processed', 'ignored')) AS succeeded,
       count(*) FILTER (WHERE newest.is_fresh AND newest.status IN ('failed', 'dead')) AS unhappy,
       avg((newest.status IN ('processed', 'ignored'))::integer) FILTER (
           WHERE newest.is_fresh AND newest.status IN ('processed', 'ignored', 'failed', 'dead'))::float8 AS share,
       count(*) FILTER (WHERE newest.is_fresh AND newest.status = 'rejected') AS rejected,
       coalesce(sum(newest.duplicates) FILTER (WHERE newest.is_fresh), 0)::bigint AS duplicates,
       percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY extract(epoch FROM newest.ended_at - newest.received_at)::float8)
           FILTER (WHERE newest.is_fresh AND newest.tries = 1 AND newest.duplicates = 0 AND newest.status IN ('processed', 'ignored')) AS took_s,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM newest.received_at - newest.occurred_at)::float8)
           FILTER (WHERE newest.is_fresh AND newest.occurred_at IS NOT NULL) AS skew_s
FROM unnest(%(sources)s::text[]) WITH ORDINALITY AS listed (name, position)
LEFT JOIN LATERAL (
    SELECT status, received_at, occurred_at, ended_at, tries, duplicates,
           received_at >= statement_timestamp() - interval '1 day' AS is_fresh
    FROM webhooks_delivery WHERE source >= listed.name AND source <= listed.name ORDER BY source, id DESC LIMIT %(sample)s
) AS newest ON true
GROUP BY listed.name, listed.position ORDER BY listed.position
