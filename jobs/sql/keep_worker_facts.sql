-- Keep what a worker reports about itself; nothing is written, and no row comes back, where it says what is known.
INSERT INTO jobs_workerfacts AS known
    (worker_id, version, host, platform, handlers, concurrency, cpus, memory_bytes, gpus, models,
     labels, loaded, stuck, leaving)
VALUES (%(worker)s::bigint, %(version)s::text, %(host)s::text, %(platform)s::text, %(handlers)s::varchar[],
        %(concurrency)s::integer, %(cpus)s::integer, %(memory_bytes)s::bigint, %(gpus)s::jsonb,
        %(models)s::varchar[], %(labels)s::jsonb, %(loaded)s::varchar[],
        %(stuck)s::bigint[], %(leaving)s::boolean)
ON CONFLICT (worker_id) DO UPDATE
SET version = excluded.version, host = excluded.host, platform = excluded.platform, handlers = excluded.handlers,
    concurrency = excluded.concurrency, cpus = excluded.cpus, memory_bytes = excluded.memory_bytes,
    gpus = excluded.gpus, models = excluded.models, labels = excluded.labels, loaded = excluded.loaded,
    stuck = excluded.stuck, leaving = excluded.leaving,
    reported_at = statement_timestamp()
WHERE (known.version, known.host, known.platform, known.handlers, known.concurrency, known.cpus, known.memory_bytes,
       known.gpus, known.models, known.labels, known.loaded, known.stuck, known.leaving)
      IS DISTINCT FROM (excluded.version, excluded.host, excluded.platform, excluded.handlers, excluded.concurrency,
                        excluded.cpus, excluded.memory_bytes, excluded.gpus, excluded.models, excluded.labels,
                        excluded.loaded, excluded.stuck, excluded.leaving)
RETURNING worker_id
