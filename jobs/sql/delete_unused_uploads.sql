-- Delete those of these locked uploads that no job uses. Returns the names of their files in the storage.
DELETE FROM jobs_upload AS upload
WHERE upload.id = ANY (%(ids)s::uuid[])
  AND NOT EXISTS (SELECT FROM jobs_input AS use WHERE use.upload_id = upload.id)
RETURNING upload.stored_as
