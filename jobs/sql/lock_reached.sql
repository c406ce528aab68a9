-- Lock jobs that wait for this signal by its key, except these ids: the signal is for all of them, or for those of its sender.
-- What has ended meanwhile waits for nothing. The caller holds the lock of the key, so that nobody begins to wait unseen.
SELECT live.job_id AS id, live.kind, live.queue, live.owner_id, signal.id AS signal_id, signal.name, signal.signal_key, signal.data
FROM jobs_signal AS signal CROSS JOIN LATERAL (
    SELECT wait.job_id FROM jobs_suspension AS wait
    WHERE wait.signal_key = signal.signal_key AND wait.signal_key <> '' AND wait.signal = signal.name
      AND wait.taken_id IS NULL AND NOT wait.timed_out AND wait.job_id <> ALL (%(but_for)s::bigint[])
      AND EXISTS (SELECT FROM jobs_live AS live WHERE live.job_id = wait.job_id AND live.lease_secret IS NULL
                  AND live.run_at = %(behind)s::timestamptz OFFSET 0)
      AND (signal.sender_id IS NULL
           OR signal.sender_id = (SELECT job.owner_id FROM jobs_job AS job WHERE job.id = wait.job_id))
      AND NOT EXISTS (SELECT FROM jobs_signal AS copy  -- it had it, and waits for the next one
                      WHERE copy.job_id = wait.job_id AND copy.key = 'of ' || signal.id OFFSET 0)
    ORDER BY wait.signal_key, wait.signal, wait.job_id LIMIT %(limit)s::bigint) AS due
CROSS JOIN LATERAL (
    SELECT one.job_id, one.kind, one.queue, one.owner_id, one.lease_secret, one.run_at FROM jobs_live AS one WHERE one.job_id = due.job_id
    FOR UPDATE) AS live
WHERE signal.id = %(signal)s::bigint AND signal.is_new
  AND live.lease_secret IS NULL AND live.run_at = %(behind)s::timestamptz
