-- Rows by which jobs that this transaction inserted are found by their tags.
INSERT INTO jobs_tag (tag, job_id)
SELECT unnest(tags::text[]), id FROM unnest(%(id)s::bigint[], %(tags)s::text[]) AS new (id, tags)
