-- Write a mutation's success, in the transaction that holds its effects: both are there, or neither.
UPDATE scheduling_scheduledfunction
SET state = 'success', started_at = transaction_timestamp(), ended_at = clock_timestamp(), result = %(result)s::text::jsonb,
    handed_by = %(boot)s::uuid, ran_by = %(ran_by)s
WHERE ctid = %(place)s::tid AND id = %(id)s AND state = 'pending'
RETURNING id
