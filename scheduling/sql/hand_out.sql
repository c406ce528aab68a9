-- Hand due functions out to one cluster for the length of a lease, the most urgent first.
-- SKIP LOCKED: two clusters that ask at once get different ones, and a mutation that runs right now, which holds its
-- row's lock, is nobody's for as long as it runs. Both places (ctid) go along, so that the mutation reaches its rows
-- without an index: an index read in a serializable transaction makes it collide with its neighbours.
WITH due AS MATERIALIZED (
    SELECT function_id FROM scheduling_due
    WHERE kind = %(kind)s AND next_at <= statement_timestamp()
      AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s::text[]))
    ORDER BY priority DESC, next_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), handed AS (
    UPDATE scheduling_due AS d
    SET next_at = clock_timestamp() + make_interval(secs => %(lease_s)s),
        handed_by = %(boot)s::uuid,
        deliveries = d.deliveries + 1
    FROM due WHERE d.function_id = due.function_id
    RETURNING d.function_id AS id, d.ctid::text AS due_place, d.priority, d.due_at, d.deliveries
)
SELECT h.*, f.ctid::text AS place
FROM handed AS h LEFT JOIN scheduling_scheduledfunction AS f ON f.id = h.id
ORDER BY h.priority DESC, h.due_at, h.id
