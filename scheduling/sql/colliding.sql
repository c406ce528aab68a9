-- The pending mutations that collided most, with the statement at which they did last. Few: each run that is not followed
-- by a success or a failure leaves one more.
SELECT f.id, f.function, due.collisions, coalesce(due.colliding_statement, '') AS statement
FROM scheduling_due AS due JOIN scheduling_scheduledfunction AS f ON f.id = due.function_id
WHERE due.collisions > 0
ORDER BY due.collisions DESC, due.function_id
LIMIT %(limit)s
