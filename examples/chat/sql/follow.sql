-- Answers follow their jobs, in the jobs' own transaction: state, attempt, who writes, why it failed; at success the
-- text becomes the message's. Returns the rooms in which something changed.
WITH moved AS MATERIALIZED (
    SELECT * FROM unnest(
        %(job)s::bigint[], %(state)s::text[], %(attempt)s::bigint[], %(worker)s::text[], %(error)s::text[],
        %(starts_at)s::timestamptz[], %(text)s::text[], %(model)s::text[]
    ) AS m (job_id, state, attempt, worker, error, starts_at, text, model)
), followed AS (
    UPDATE chat_answer AS answer
    SET state = moved.state, attempt = moved.attempt, worker_name = moved.worker, error = moved.error,
        starts_at = moved.starts_at, model_name = moved.model
    FROM moved WHERE answer.job_id = moved.job_id
    RETURNING answer.message_id, answer.group_id, moved.text
), written AS (
    UPDATE chat_message AS message SET text = followed.text
    FROM followed WHERE message.id = followed.message_id AND followed.text IS NOT NULL
)
SELECT DISTINCT group_id FROM followed
