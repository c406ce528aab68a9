-- Write that running jobs succeeded, where the given leases still hold them: what lock_held and settle do, in one
-- statement, for the end that most jobs have. Rows are locked in the order of their ids, looked up by id alone and compared
-- afterwards, and deleted by their place: no plan from an idle hour can read more (docs/adr/0111). A row that another one
-- changed after this statement began is at a place that this one does not see: it is not ended, `moved` says so, and the
-- caller, who has it locked by then, does it again.
-- `next`, in one of the rows: what of flows may start now, as close_edges.sql has it, once all outcomes are written, which it
-- reads; they are counted for that, since a join with them compares each with each. By a function that is called as a value:
-- scanned as a table it cost an end of one job 15 us of 150, in a flow or not (docs/adr/0127).
-- From here on the transaction waits for nobody's lock for longer than `wait`.
-- Columns are named: those that no step needs were 8 % of an end of one job.
-- `counted_in`: the queue whose ceiling has room now. `listens`: whether an endpoint of the outbox may ask for events.
WITH held AS MATERIALIZED (
    SELECT live.*, lease.place, lease.result
    FROM (SELECT * FROM unnest(%(job)s::bigint[], %(fence)s::bigint[], %(secret)s::uuid[], %(result)s::text[])
              WITH ORDINALITY AS each (job_id, fence, secret, result, place)
          WHERE (SELECT set_config('lock_timeout', %(wait)s::text, true)) <> '' ORDER BY job_id) AS lease
    CROSS JOIN LATERAL (
        SELECT one.ctid AS tid, one.job_id, one.kind, one.queue, one.run_at, one.claimed_at, one.worker_id, one.worker_name,
               one.failures, one.fence, one.lease_secret, one.next_seq, one.output_bytes, one.earlier_output_bytes,
               one.is_metered, one.counted_in, one.has_key, one.in_flow
        FROM jobs_live AS one WHERE one.job_id = lease.job_id FOR UPDATE) AS live
    WHERE live.fence = lease.fence AND live.lease_secret = lease.secret AND live.worker_id = %(worker)s::bigint
      AND (%(version)s::xid IS NULL OR EXISTS (SELECT FROM jobs_as_read(%(worker)s::bigint, %(version)s::xid)))
), gone AS (
    DELETE FROM jobs_live WHERE ctid = ANY (ARRAY(SELECT tid FROM held)) RETURNING job_id AS id, in_flow AS of_flow
), ended AS (
    INSERT INTO jobs_outcome (
        job_id, status, ended_at, kind, queue, run_at, claimed_at, worker_id, worker_name, attempt, failures, fence,
        confirmed_fence, last_secret, progress, next_seq, output_bytes, earlier_output_bytes, result)
    SELECT job_id, 'success', statement_timestamp(), kind, queue, run_at, claimed_at, worker_id, worker_name, failures + 1,
           failures, fence, fence, lease_secret, 1, next_seq, output_bytes, earlier_output_bytes, result::jsonb
    FROM held JOIN gone ON gone.id = held.job_id
    RETURNING job_id
)
SELECT job_id AS id, kind, queue, 'success' AS status, fence, next_seq, failures, worker_name, is_metered, counted_in, has_key, in_flow, place,
       gone.id IS NULL AS moved,
       CASE WHEN gone.of_flow AND gone.id = (SELECT id FROM gone WHERE of_flow LIMIT 1) AND cardinality(ARRAY(SELECT job_id FROM ended)) > 0
            THEN jobs_steps_after(ARRAY(SELECT id FROM gone WHERE of_flow)) END AS next,
       EXISTS (SELECT FROM outbox_endpoint AS endpoint WHERE endpoint.status <> 'disabled') AS listens
FROM held LEFT JOIN gone ON gone.id = held.job_id
