-- Move the marks of these lanes, or of those of some queues, or (for the janitor) of all from an id on, to the first job that
-- waits in them; in batches, in order of id. Lanes that somebody puts jobs into just now stay as they are. It does not wait
-- for the disk: a mark that comes back only errs early. `awake`: how many lanes of the queue have something due, about.
SELECT lane_id, queue, jobs_tidy(lane_id) AS asleep, (
           SELECT count(*) FROM (
               SELECT FROM jobs_mark AS mark
               WHERE mark.queue = lane.queue AND mark.at <= statement_timestamp() LIMIT 100) AS due) AS awake,
       set_config('synchronous_commit', 'off', true) AS disk
FROM (
    SELECT DISTINCT mark.lane_id, mark.queue FROM jobs_mark AS mark
    WHERE mark.at <= statement_timestamp() AND mark.lane_id > %(after)s::integer
      AND (%(lanes)s::integer[] IS NULL OR mark.lane_id = ANY (%(lanes)s::integer[]))
      AND (%(queues)s::text[] IS NULL OR mark.queue = ANY (%(queues)s::text[]))
    ORDER BY mark.lane_id LIMIT %(limit)s::bigint) AS lane
