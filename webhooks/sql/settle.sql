-- Write how one attempt ended: a row of the history, and where the delivery stands now. It was locked by this
-- transaction, so it lies where it lay then. Words are taken in once; a body does not change.
WITH attempt AS (
    INSERT INTO webhooks_deliveryattempt (delivery_id, number, started_at, ended_at, outcome, error, error_class, traceback)
    VALUES (%(id)s, %(number)s, %(started_at)s, clock_timestamp(), %(outcome)s::text, %(error)s::text,
            %(error_class)s::text, %(traceback)s::text)
)
UPDATE webhooks_delivery SET
    status = %(status)s::text, note = %(note)s::text, attempts = %(attempts)s, tries = %(number)s,
    ended_at = clock_timestamp(), next_attempt_at = clock_timestamp() + make_interval(secs => %(wait_s)s::float8),
    search = coalesce(search, to_tsvector('simple', %(words)s::text))
WHERE ctid = %(row_pointer)s::tid AND id = %(id)s
RETURNING ctid::text AS row_pointer
