-- Keep the newest state of a thing: insert it, or overwrite the row if this state's key is the greater. Returns the row
-- if it was written. One statement and no look before it: whoever comes at the same time waits at the unique index, and
-- since nothing is read, a serializable transaction conflicts with those that write the same thing alone.
-- The names in braces are those of a table and its columns (queries.keeping fills them in, once for each table).
INSERT INTO {table} AS kept ({columns}) VALUES ({values})
ON CONFLICT (sender_id) DO UPDATE SET ({columns}) = ROW ({told})
WHERE kept.state_key < excluded.state_key
RETURNING kept.id;
