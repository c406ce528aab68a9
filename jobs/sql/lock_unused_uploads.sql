-- Uploads older than the given age that no job uses and nobody keeps, oldest first, locked. A job may have come to use one while this
-- waited: delete_unused_uploads.sql looks once more, under the lock.
SELECT upload.id FROM jobs_upload AS upload
WHERE upload.created_at < statement_timestamp() - make_interval(secs => %(age_s)s::float8)
  AND (upload.kept_until IS NULL OR upload.kept_until < statement_timestamp())
  AND NOT EXISTS (SELECT FROM jobs_input AS use WHERE use.upload_id = upload.id)
ORDER BY upload.created_at, upload.id LIMIT %(limit)s::bigint
FOR UPDATE SKIP LOCKED
