-- A job that tries an ended one again takes over its answer, if that is still the ended one's, did not succeed, and its
-- asker waits for no other. What was written of a stopped one goes. Returns the rooms.
WITH taken_over AS (
    UPDATE chat_answer AS answer
    SET job_id = again.job_id, state = 'waiting', attempt = 0, worker_name = '', error = '', starts_at = again.starts_at
    FROM unnest(%(job)s::bigint[], %(retry_of)s::bigint[], %(starts_at)s::timestamptz[]) AS again (job_id, retry_of, starts_at)
    WHERE answer.job_id = again.retry_of AND answer.state IN ('failed', 'timed_out', 'canceled')
      AND NOT EXISTS (
          SELECT FROM chat_answer AS other
          WHERE other.group_id = answer.group_id AND other.asker_id = answer.asker_id
            AND other.state IN ('waiting', 'writing', 'retrying'))
    RETURNING answer.message_id, answer.group_id
), emptied AS (
    UPDATE chat_message AS message SET text = ''
    FROM taken_over WHERE message.id = taken_over.message_id AND message.text <> ''
)
SELECT group_id FROM taken_over
