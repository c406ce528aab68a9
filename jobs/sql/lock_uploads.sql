-- The uploads with these ids that are there, locked so that none is deleted before the end of this transaction. Many may
-- hold such locks at once. In the order of their ids, as whoever deletes them has it.
SELECT id, owner_id, name, size, sha256 FROM jobs_upload
WHERE id = ANY (%(ids)s::uuid[]) ORDER BY id FOR KEY SHARE
