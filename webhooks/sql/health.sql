-- What of the deliveries waits, is late, failed, died, or was rejected by its handler, and how many jobs their rules did not
-- start, both within so many seconds: each counted up to ten thousand. Telemetry waits for its cron.
SELECT
    (SELECT count(*) FROM (SELECT FROM webhooks_delivery WHERE status = 'received' LIMIT 10000) AS counted) AS waiting,
    (SELECT count(*) FROM (
        SELECT FROM webhooks_delivery
        WHERE status IN ('received', 'failed')
          AND coalesce(next_attempt_at, last_duplicate_at, received_at) < statement_timestamp() - CASE source
              WHEN 'sandbox_telemetry' THEN interval '2 minutes' ELSE interval '1 minute' END
        LIMIT 10000) AS counted) AS late,
    (SELECT count(*) FROM (SELECT FROM webhooks_delivery WHERE status = 'failed' LIMIT 10000) AS counted) AS failed,
    (SELECT count(*) FROM (SELECT FROM webhooks_delivery WHERE status = 'dead' LIMIT 10000) AS counted) AS dead,
    (SELECT count(*) FROM (
        SELECT FROM webhooks_delivery
        WHERE status = 'rejected' AND tries > 0
          AND ended_at > statement_timestamp() - make_interval(secs => %(since_s)s::float8)
        LIMIT 10000) AS counted) AS rejected,
    (SELECT count(*) FROM (
        SELECT FROM webhooks_jobstart
        WHERE outcome = 'failed' AND at > statement_timestamp() - make_interval(secs => %(since_s)s::float8)
        LIMIT 10000) AS counted) AS unstarted
