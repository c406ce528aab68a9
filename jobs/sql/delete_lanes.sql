-- Delete lanes that sleep and have been there for a day, but those of plain jobs: one for each priority. A process that
-- still means to use one makes it anew (jobs_wake says so); the function asks again under the lane's lock.
SELECT lane.id FROM (
    SELECT one.id FROM jobs_lane AS one
    WHERE one.created_at < statement_timestamp() - interval '1 day'
      AND (one.owner_id, one.group_id, one.requirement_id, one.key_id, one.share, one.held_for, one.raised, one.avoid)
          <> (0, 0, 0, 0, 0, 0, 0, '{}')
      AND NOT EXISTS (SELECT FROM jobs_mark AS mark WHERE mark.lane_id = one.id)
      AND NOT EXISTS (SELECT FROM jobs_pausedowner AS paused WHERE paused.owner_id = one.held_for)
    ORDER BY one.id LIMIT %(limit)s::bigint) AS lane
WHERE jobs_delete_lane(lane.id)
