-- Keep the newest of a resource: insert it, or take over each field whose key is the greater. A field's key is that of
-- its state, or where the newest state does not say it, the one that field_keys has for it. Returns the row if something
-- of it was taken over. One statement and no read before it: whoever comes at the same time waits at the unique index, and
-- since nothing is read, a serializable transaction conflicts with those that write the same resource alone.
INSERT INTO webhooks_resource AS kept (type, external_id, document, state_key, state_at)
VALUES (%(type)s, %(external_id)s, %(document)s::jsonb, %(state_key)s, %(state_at)s)
ON CONFLICT (type, external_id) DO UPDATE SET
    (document, field_keys) = (
        SELECT coalesce(jsonb_object_agg(name, value), '{}'),
               jsonb_object_agg(name, key) FILTER (WHERE key < GREATEST(kept.state_key, excluded.state_key))
        FROM (SELECT DISTINCT ON (name) name, value, key
              FROM (SELECT name, value, coalesce((kept.field_keys ->> name) COLLATE "C", kept.state_key) AS key
                    FROM jsonb_each(kept.document) AS field (name, value)
                    UNION ALL
                    SELECT name, value, excluded.state_key FROM jsonb_each(excluded.document) AS field (name, value)
                   ) AS both_states
              ORDER BY name, key DESC) AS newest),
    state_at = CASE WHEN kept.state_key < excluded.state_key THEN excluded.state_at ELSE kept.state_at END,
    state_key = GREATEST(kept.state_key, excluded.state_key)
WHERE kept.state_key < excluded.state_key
   OR EXISTS (SELECT FROM jsonb_object_keys(excluded.document) AS name
              WHERE NOT kept.document ? name OR (kept.field_keys ->> name) COLLATE "C" < excluded.state_key)
RETURNING kept.id;
