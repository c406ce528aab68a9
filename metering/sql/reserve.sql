-- Reserve amounts for new jobs, each in the window that it was placed in. The caller has locked the budgets.
WITH new_reservation AS MATERIALIZED (
    SELECT * FROM unnest(%(job)s::bigint[], %(budget)s::bigint[], %(starts_at)s::timestamptz[], %(amount)s::numeric[])
                  AS row (job_id, budget_id, starts_at, amount)
), kept AS (
    INSERT INTO metering_reservation (job_id, budget_id, starts_at, amount)
    SELECT job_id, budget_id, starts_at, amount FROM new_reservation
)
INSERT INTO metering_window AS target (budget_id, starts_at, used, reserved)
SELECT budget_id, starts_at, 0, sum(amount) FROM new_reservation GROUP BY 1, 2
ON CONFLICT (budget_id, starts_at) DO UPDATE SET reserved = target.reserved + excluded.reserved
