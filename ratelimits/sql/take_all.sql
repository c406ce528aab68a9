-- Ask several limits, and take from all of them or from none: one statement, by the database's clock.
-- What is flushed later is a transaction by itself that does not wait for the disk: its caller commits something soon.
-- `requests` is a ratelimits_request[] as text; a row for each answer, in their order.
SELECT answer.nth, answer.granted, answer.retry_after_ms, answer.remaining,
       CASE WHEN %(is_flushed_later)s::boolean THEN set_config('synchronous_commit', 'off', true) END AS disk
FROM ratelimits_take_all(
    %(requests)s::ratelimits_request[], floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, random()
) AS answer
ORDER BY answer.nth;
