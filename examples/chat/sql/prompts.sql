-- The prompt of each question, its messages in order: the newest instructions of the room, then the
-- newest finished messages up to the question itself. Read when a worker takes the job, so what was deleted or was
-- finished meanwhile is as it is now.
SELECT reply.id AS reply_id, line.role, line.text
FROM chat_message AS reply
CROSS JOIN LATERAL (
    (SELECT 0 AS part, message.id, message.role, message.text
     FROM (SELECT id, role, text FROM chat_message
           WHERE group_id = reply.group_id AND role = 'system' ORDER BY id DESC LIMIT 1) AS message
     WHERE message.text <> '')
    UNION ALL
    (SELECT 1, message.id, message.role, message.text
     FROM chat_message AS message LEFT JOIN chat_answer AS other ON other.message_id = message.id
     WHERE message.group_id = reply.group_id AND message.role <> 'system' AND message.id <= reply.question_id
       AND (other.message_id IS NULL OR other.state = 'finished')
     ORDER BY message.id DESC LIMIT %(context)s::bigint)
) AS line
WHERE reply.id = ANY (%(replies)s::bigint[])
ORDER BY reply.id, line.part, line.id
