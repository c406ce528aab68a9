-- Mark a resource as deleted. An unknown one gets a row all the same, so that its creation, when it comes late,
-- finds the grave; of several deletions the earliest counts. Returns the row if it was written.
INSERT INTO webhooks_resource AS kept (type, external_id, document, state_key, deleted_at)
VALUES (%(type)s, %(external_id)s, '{}', '', %(at)s)
ON CONFLICT (type, external_id) DO UPDATE SET deleted_at = LEAST(kept.deleted_at, excluded.deleted_at)
WHERE kept.deleted_at IS NULL OR kept.deleted_at > excluded.deleted_at
RETURNING kept.id;
