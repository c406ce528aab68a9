-- Clusters that are over, or that nobody knows, and still have an action in progress: the process that should have
-- ended it died in between. There are few running actions, so this is a short walk of their index.
SELECT DISTINCT f.cluster_id
FROM scheduling_scheduledfunction AS f
WHERE f.status = 'in_progress'
  AND NOT EXISTS (SELECT 1 FROM scheduling_cluster AS c WHERE c.cluster_id = f.cluster_id AND c.ended_at IS NULL)
