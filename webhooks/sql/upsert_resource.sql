-- Keep the newest of a resource: insert it, or take over each column whose key is the greater. A column's key is that of
-- its state, or the one that column_keys has for it: "" for what a state does not say. Returns the row if something of it
-- was taken over. One statement and no read before it: whoever comes at the same time waits at the unique index, and since
-- nothing is read, a serializable transaction conflicts with those that write the same thing alone.
-- The names in braces are those of a table and its columns (queries.upserts fills them in, once for each table).
INSERT INTO {table} AS kept ({columns}) VALUES ({values})
ON CONFLICT (external_id) DO UPDATE SET
    {newer},
    state_at = CASE WHEN kept.state_key < excluded.state_key THEN excluded.state_at ELSE kept.state_at END,
    state_key = GREATEST(kept.state_key, excluded.state_key),
    column_keys = (
        SELECT jsonb_object_agg(name, key)
        FROM jsonb_object_keys(coalesce(kept.column_keys, jsonb_build_object())
                               || coalesce(excluded.column_keys, jsonb_build_object())) AS name,
             LATERAL (SELECT GREATEST(coalesce((kept.column_keys ->> name) COLLATE "C", kept.state_key),
                                      coalesce((excluded.column_keys ->> name) COLLATE "C", excluded.state_key))) AS own (key)
        WHERE key < GREATEST(kept.state_key, excluded.state_key))
WHERE kept.state_key < excluded.state_key
   OR EXISTS (SELECT FROM jsonb_each_text(kept.column_keys) AS behind (name, key)
              WHERE behind.key COLLATE "C" < coalesce((excluded.column_keys ->> behind.name) COLLATE "C", excluded.state_key))
RETURNING kept.id;
