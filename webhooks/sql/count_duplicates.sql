-- Count deliveries that are there already, found by their id or (where ids are not signed) by their body's digest.
-- What had failed, died or been rejected by its handler waits to be processed again: its sender, or whoever sent it
-- again, wants it to be. What was rejected on arrival (without an attempt) stays so: nobody can read it.
-- What somebody else has, and `queries.inbox` does not wait for, is found and not counted.
-- Returns for each position that was found the row as it was (`was`) and where it lies now.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(%(source)s::text[], %(delivery_id)s::text[], %(body_sha256)s::bytea[])
        WITH ORDINALITY AS input(source, delivery_id, body_sha256, position)
), matches AS MATERIALIZED (
    SELECT known.id, known.status, known.source, input.position FROM input JOIN webhooks_delivery AS known
        ON known.source = input.source AND known.delivery_id = input.delivery_id
    UNION
    SELECT known.id, known.status, known.source, input.position FROM input JOIN webhooks_delivery AS known
        ON known.source = input.source AND known.body_sha256 = input.body_sha256
        AND known.source IN ('github', 'jira', 'confluence')
), locked AS MATERIALIZED (
    SELECT id, status, status IN ('failed', 'dead') OR status = 'rejected' AND tries > 0 AS comes_again
    FROM webhooks_delivery WHERE id IN (SELECT id FROM matches) ORDER BY id FOR UPDATE
), counted AS (
    UPDATE webhooks_delivery AS known SET
        duplicates = known.duplicates + (SELECT count(*) FROM matches WHERE matches.id = known.id),
        last_duplicate_at = clock_timestamp(),
        status = CASE WHEN locked.comes_again THEN 'received' ELSE known.status END,
        attempts = CASE WHEN locked.comes_again THEN 0 ELSE known.attempts END,
        next_attempt_at = NULL
    FROM locked WHERE known.id = locked.id
    RETURNING known.id, known.ctid::text AS row_pointer, locked.status AS was, locked.comes_again
)
SELECT matches.position, id, counted.row_pointer, coalesce(counted.was, matches.status) AS was,
       coalesce(counted.comes_again, false) AS comes_again, matches.source
FROM matches LEFT JOIN counted USING (id) ORDER BY matches.position, id
