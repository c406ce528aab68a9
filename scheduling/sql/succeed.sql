-- Write a mutation's success, in the transaction that holds its effects: both are there, or neither. Who changed its row,
-- be it to cancel it, has moved it.
UPDATE scheduling_scheduledfunction
SET status = 'success', started_at = transaction_timestamp(), ended_at = clock_timestamp(), result = %(result)s::text::jsonb,
    cluster_id = %(cluster_id)s::uuid, ran_by = %(ran_by)s
WHERE ctid = %(row_pointer)s::tid AND id = %(id)s
RETURNING id
