-- What a newer submit of its unique_key says takes the place of what a job that waits was to do, of its input files and tags
-- (docs/adr/0123). The caller holds its row's lock; a guard refuses it where a worker has ever begun the job. Its live row
-- follows by a trigger, but for when it is due (replaced_live.sql).
WITH origin AS (
    DELETE FROM jobs_origin WHERE job_id = %(id)s::bigint
), input AS (
    DELETE FROM jobs_input WHERE job_id = %(id)s::bigint
), deletion AS (
    DELETE FROM jobs_contentdeletion WHERE job_id = %(id)s::bigint
), checkpoint AS (
    DELETE FROM jobs_checkpoint WHERE job_id = %(id)s::bigint
), tag AS (
    DELETE FROM jobs_tag WHERE ctid = ANY (ARRAY(
        SELECT named.ctid FROM jobs_job AS job CROSS JOIN LATERAL unnest(job.tags) AS each (tag) CROSS JOIN LATERAL (
            SELECT tag.ctid FROM jobs_tag AS tag WHERE tag.tag = each.tag AND tag.job_id = job.id OFFSET 0) AS named
        WHERE job.id = %(id)s::bigint))
), moment AS (
    SELECT statement_timestamp() + make_interval(secs => %(limit_wait_s)s::float8) AS limit_until
)
UPDATE jobs_job
SET {assignments}, payload = %(payload)s::jsonb, traceparent = %(traceparent)s, inputs = NULL,
    tags = %(tags)s::text[],
    limit_until = moment.limit_until, replaced_at = statement_timestamp(),
    expires_at = coalesce(%(expires_at)s::timestamptz, greatest(
        %(run_at)s::timestamptz, moment.limit_until, statement_timestamp()) + make_interval(secs => %(expires_s)s::float8))
FROM moment WHERE id = %(id)s::bigint
