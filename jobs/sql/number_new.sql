-- Ids for so many new jobs, in ascending order, and the moment at which they are submitted.
SELECT array_agg(number.id) AS ids, statement_timestamp() AS now
FROM (SELECT nextval('jobs_job_id_seq') AS id FROM generate_series(1, %(count)s)) AS number
