-- Hand out tasks that were queued with django-q2's own async_task, for as long as its setting `retry` says. The commit
-- does not wait for the disk: after a crash of the server one is handed out again.
WITH due AS MATERIALIZED (
    SELECT id, set_config('synchronous_commit', 'off', true) AS disk FROM django_q_ormq
    WHERE key = %(key)s AND lock <= clock_timestamp()
    ORDER BY lock LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE django_q_ormq AS q SET lock = clock_timestamp() + make_interval(secs => %(retry_s)s)
FROM due WHERE q.id = due.id
RETURNING q.id, q.payload
