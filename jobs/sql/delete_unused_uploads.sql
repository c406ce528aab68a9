-- Delete those of these locked uploads that no job uses and nobody keeps. Returns the names of their files in the storage.
DELETE FROM jobs_upload AS upload
WHERE upload.id = ANY (%(ids)s::uuid[])
  AND (upload.kept_until IS NULL OR upload.kept_until < statement_timestamp())
  AND NOT EXISTS (SELECT FROM jobs_input AS use WHERE use.upload_id = upload.id)
RETURNING upload.stored_as
