-- Give hand-outs back that were not begun: due again at once, for anybody. By place: one that was handed out again,
-- or taken, meanwhile has moved and stays as it is.
UPDATE scheduling_due
SET next_at = clock_timestamp() + make_interval(secs => %(delay_s)s), handed_by = NULL,
    deliveries = greatest(deliveries - 1, 0)
WHERE ctid = ANY (%(due_places)s::text[]::tid[]) AND function_id = ANY (%(ids)s::bigint[]) AND handed_by = %(boot)s::uuid
RETURNING function_id
