-- Give back what is reserved for these jobs, which have ended, and note what they used instead: the time of all their
-- attempts, their tokens, their cost, by the budget's unit. A row of their own for each, so that an end waits for no
-- lock that a submit holds; the next submit or the roll-up adds them to the windows (fold.sql). A reservation is
-- deleted once, so a job is settled once. Returns how many reservations there were.
WITH gone AS (
    DELETE FROM metering_reservation WHERE job_id = ANY (%(jobs)s::bigint[])
    RETURNING job_id, budget_id, starts_at, amount
), written AS (
    INSERT INTO metering_settlement (budget_id, starts_at, reserved, used)
    SELECT gone.budget_id, gone.starts_at, gone.amount,
           CASE budget.unit
               WHEN 'seconds' THEN (
                   SELECT coalesce(sum(greatest(extract(epoch FROM run.ended_at - run.claimed_at), 0)), 0)
                   FROM (SELECT attempt.claimed_at, attempt.ended_at FROM jobs_attempt AS attempt
                         WHERE attempt.job_id = gone.job_id
                         UNION ALL
                         SELECT outcome.claimed_at, outcome.ended_at FROM jobs_outcome AS outcome
                         WHERE outcome.job_id = gone.job_id AND outcome.status = 'success') AS run)
               WHEN 'tokens' THEN (
                   SELECT coalesce(sum(reading.tokens_in + reading.tokens_out), 0)
                   FROM metering_reading AS reading WHERE reading.job_id = gone.job_id)
               ELSE (
                   SELECT coalesce(sum(reading.cost), 0)
                   FROM metering_reading AS reading WHERE reading.job_id = gone.job_id)
           END
    FROM gone JOIN metering_budget AS budget ON budget.id = gone.budget_id
)
SELECT count(*)::bigint AS settled FROM gone
