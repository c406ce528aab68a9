-- A process of the farm says that it is there. One that said that it ends stays ended, whatever was still on its way. What was
-- not heard of for a day is forgotten: a process that dies at each start leaves a row each time.
WITH forgotten AS (
    DELETE FROM jobs_process
    WHERE seen_at < statement_timestamp() - interval '1 day' AND id <> %(id)s::uuid
)
INSERT INTO jobs_process (id, part, host, pid)
VALUES (%(id)s::uuid, %(part)s::text, %(host)s::text, %(pid)s::integer)
ON CONFLICT (id) DO UPDATE SET seen_at = statement_timestamp() WHERE jobs_process.ended_at IS NULL
