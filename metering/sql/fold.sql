-- Add what jobs used, and take off what they had reserved, in the windows of these budgets. The caller has locked the
-- budgets, so nobody else folds them; a settlement that commits meanwhile is for the next time.
WITH settled AS (
    DELETE FROM metering_settlement WHERE budget_id = ANY (%(budgets)s::bigint[])
    RETURNING budget_id, starts_at, used, reserved
), summed AS (
    SELECT budget_id, starts_at, sum(used) AS used, sum(reserved) AS reserved FROM settled GROUP BY 1, 2
)
UPDATE metering_window AS target
SET used = least(target.used + summed.used, 9e17), reserved = target.reserved - summed.reserved
FROM summed WHERE target.budget_id = summed.budget_id AND target.starts_at = summed.starts_at
