-- How each source did between two moments: deliveries that ended for good, how many of them were processed or ignored,
-- how long that took from when they came, and how many wait now.
WITH ended AS MATERIALIZED (
    SELECT source, count(*) AS ended, count(*) FILTER (WHERE status IN ('processed', 'ignored')) AS succeeded,
           percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (
               ORDER BY extract(epoch FROM ended_at - received_at)::float8) AS latency_s
    FROM webhooks_delivery
    WHERE received_at >= %(start)s AND received_at < %(stop)s AND status IN ('processed', 'ignored', 'dead')
    GROUP BY source
), waiting AS MATERIALIZED (
    SELECT source, count(*) AS backlog FROM webhooks_delivery WHERE status IN ('received', 'failed') GROUP BY source
)
SELECT name, coalesce(ended.ended, 0) AS ended, coalesce(ended.succeeded, 0) AS succeeded,
       ended.latency_s[1] AS latency_p50_s, ended.latency_s[2] AS latency_p95_s, coalesce(waiting.backlog, 0) AS backlog
FROM unnest(%(sources)s::text[]) AS name
LEFT JOIN ended ON ended.source = name LEFT JOIN waiting ON waiting.source = name
ORDER BY name
