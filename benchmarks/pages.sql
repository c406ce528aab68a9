-- A farm that has run for a month: a million ended jobs, ten thousand that wait, twenty that run, and what belongs to
-- them; a hundred thousand scheduled functions, deliveries with their activity, limits, and lines of the admin's log.
INSERT INTO jobs_queue (name, created_at) SELECT 'queue-' || n, now() FROM generate_series(0, 9) AS n;
INSERT INTO jobs_kind (name, queue, max_attempts, backoff_first_s, backoff_base, backoff_cap_s, retry_on_timeout, priority,
    limit_count, limit_key)
SELECT name, 'queue-0', 3, 1, 2, 3600, false, 0, 1, ''
FROM unnest(ARRAY['kind-0', 'kind-1', 'kind-2', 'kind-3', 'kind-4', 'kind-5', 'kind-6', 'kind-idle']) AS name;
INSERT INTO jobs_worker (name, queues, steals, key_hash, key_hint, created_at, last_seen_at)
SELECT 'worker-' || n, ARRAY['queue-' || n % 10], '{}', md5(n::text), 'farm_' || n, now(), now()
FROM generate_series(1, 50) AS n;
INSERT INTO auth_user (username, password, first_name, last_name, email, is_superuser, is_staff, is_active, date_joined)
SELECT 'person-' || n, '!', '', '', '', false, false, true, now() FROM generate_series(1, 5000) AS n;
INSERT INTO auth_group (name) SELECT 'group-' || n FROM generate_series(1, 1000) AS n;
INSERT INTO auth_user_groups (user_id, group_id)
SELECT u.id, g.id FROM auth_user AS u JOIN auth_group AS g ON u.id % 1000 = g.id % 1000;

CREATE TEMP TABLE past AS
SELECT nextval('jobs_job_id_seq') AS id, 'kind-' || n % 7 AS kind, 'queue-' || n % 10 AS queue,
    CASE WHEN n % 100 = 0 THEN 'failed' WHEN n % 100 = 1 THEN 'canceled' WHEN n % 500 = 2 THEN 'timed_out' ELSE 'success' END AS status,
    p.low + n % 5000 AS owner_id, CASE WHEN n % 3 = 0 THEN g.low + n % 1000 END AS group_id,
    CASE WHEN n % 1000 = 7 THEN n END AS retry_of_id, at, CASE WHEN n % 50 = 0 THEN 1 ELSE 0 END AS failures,
    w.low + n % 50 AS worker_id, 'worker-' || 1 + n % 50 AS worker_name
FROM generate_series(1, 1000000) AS n
CROSS JOIN LATERAL (SELECT now() - interval '30 days' + n * interval '2.5 seconds' AS at) AS t
CROSS JOIN (SELECT min(id) AS low FROM auth_user) AS p
CROSS JOIN (SELECT min(id) AS low FROM auth_group) AS g
CROSS JOIN (SELECT min(id) AS low FROM jobs_worker) AS w;
INSERT INTO jobs_job (id, kind, queue, priority, owner_id, group_id, retry_of_id, created_at, max_attempts, retry_on_timeout,
    payload)
SELECT id, kind, queue, 0, owner_id, group_id, retry_of_id, at, 3, false,
    jsonb_build_object('prompt', 'the question number ' || id) FROM past ORDER BY id;
INSERT INTO jobs_outcome (job_id, kind, queue, status, run_at, claimed_at, ended_at, attempt, failures, fence, confirmed_fence,
    worker_id, worker_name, progress, result)
SELECT id, kind, queue, status, at, at + interval '1 second', at + interval '20 seconds', 1, failures, 1, 1, worker_id,
    worker_name, 1, CASE WHEN status = 'success' THEN to_jsonb('an answer of some words'::text) END FROM past ORDER BY id;

INSERT INTO jobs_job (kind, queue, priority, owner_id, created_at, max_attempts, retry_on_timeout, payload)
SELECT 'kind-' || n % 7, 'queue-' || n % 10, 0, CASE WHEN n <= 10000 THEN p.low + n % 5000 END, now(), 3, false,
    jsonb_build_object('prompt', 'the question number ' || n)
FROM generate_series(1, 10020) AS n CROSS JOIN (SELECT min(id) AS low FROM auth_user) AS p;
INSERT INTO jobs_live (job_id, kind, queue, owner_id, run_at)
SELECT id, kind, queue, owner_id, created_at FROM jobs_job WHERE owner_id IS NOT NULL
AND NOT EXISTS (SELECT FROM past WHERE past.id = jobs_job.id);
INSERT INTO jobs_live (job_id, kind, queue, run_at, fence, lease_secret, lease_expires_at, worker_id, worker_name, claimed_at,
    progress, detail)
SELECT id, kind, queue, created_at, 1, gen_random_uuid(), now() + interval '1 hour', w.low + id % 50, 'worker-' || 1 + id % 50,
    now(), 0.4, 'painting'
FROM jobs_job CROSS JOIN (SELECT min(id) AS low FROM jobs_worker) AS w
WHERE owner_id IS NULL AND NOT EXISTS (SELECT FROM past WHERE past.id = jobs_job.id);
INSERT INTO jobs_attempt (job_id, number, outcome, worker_id, worker_name, claimed_at, ended_at, error)
SELECT job_id, 1, CASE WHEN job_id % 3 = 0 THEN 'lost' ELSE 'failed' END, worker_id, worker_name, claimed_at, ended_at,
    repeat('  File "work.py", line 7' || chr(10), 20) || 'ValueError: it broke'
FROM jobs_outcome WHERE failures > 0 OR status IN ('failed', 'timed_out') ORDER BY job_id;

INSERT INTO scheduling_scheduledfunction (function, kind, queue, priority, args, status, attempt, created_at, run_at,
    started_at, ended_at, error, traceback)
SELECT CASE WHEN n % 2 = 0 THEN 'webhooks.operations.attempts.process' ELSE 'app.function_' || n % 20 END,
    CASE WHEN n % 4 = 1 THEN 'action' ELSE 'mutation' END, 'default', 0, jsonb_build_object('delivery', n),
    CASE WHEN n % 200 = 0 THEN 'failed' ELSE 'success' END, 1, at, at, at, at,
    CASE WHEN n % 200 = 0 THEN 'it broke' END, NULL
FROM generate_series(1, 100000) AS n
CROSS JOIN LATERAL (SELECT now() - interval '7 days' + n * interval '6 seconds' AS at) AS t;
INSERT INTO webhooks_delivery (source, delivery_id, event_type, status, note, body, body_bytes, body_sha256, headers,
    search, received_at, occurred_at, attempts, tries, ended_at, duplicates)
SELECT CASE WHEN n % 3 = 0 THEN 'stripe' ELSE 'github' END, 'delivery-' || n, 'event.' || n % 12,
    CASE WHEN n % 300 = 0 THEN 'dead' WHEN n % 10 = 1 THEN 'ignored' ELSE 'processed' END, 'a note',
    convert_to(repeat('{"some": "body"}', 60), 'UTF8'), 960, sha256(convert_to(n::text, 'UTF8')), '{"a": "b"}',
    to_tsvector('simple', 'some body word' || n % 5000), at, at, 1, 1, at, 0
FROM generate_series(1, 100000) AS n
CROSS JOIN LATERAL (SELECT now() - interval '7 days' + n * interval '6 seconds' AS at) AS t;
INSERT INTO webhooks_activity (delivery_id, n, source, at, actor, verb, object, kind, resource, link, written_at)
SELECT id, 0, source, received_at, 'person-' || id % 500, 'pushed to', 'repository ' || id % 90, '', '', '', received_at
FROM webhooks_delivery;
INSERT INTO ratelimits_bucket (name, key, shard, shards, is_window, rate, period_ms, most, value, ts, used)
SELECT 'limit-' || n % 9, 'key-' || n, 0, 1, n % 2 = 0, 10, 60000, 10, n % 10,
    (extract(epoch FROM now()) * 1000)::bigint, n % 1000
FROM generate_series(1, 100000) AS n;
INSERT INTO django_admin_log (action_time, user_id, content_type_id, object_id, object_repr, action_flag, change_message)
SELECT now(), (SELECT min(id) FROM auth_user), (SELECT min(id) FROM django_content_type), n::text, 'row ' || n, 2, 'changed'
FROM generate_series(1, 100000) AS n;
