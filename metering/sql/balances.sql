-- How budgets stand: what is used and reserved in each window from a moment on, settlements that are not folded yet
-- included, and how many those are.
SELECT budget_id, starts_at, sum(used) AS used, sum(reserved) AS reserved, sum(unfolded) AS unfolded
FROM (SELECT budget_id, starts_at, used, reserved, 0 AS unfolded FROM metering_window
      WHERE budget_id = ANY (%(budgets)s::bigint[]) AND starts_at >= %(since)s::timestamptz
      UNION ALL
      SELECT budget_id, starts_at, used, -reserved, 1 FROM metering_settlement
      WHERE budget_id = ANY (%(budgets)s::bigint[]) AND starts_at >= %(since)s::timestamptz) AS entry
GROUP BY 1, 2 ORDER BY 1, 2
