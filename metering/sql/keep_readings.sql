-- Keep the tokens of attempts that ended, with what they cost by the prices of this moment. The model's name is read of
-- the payload here, so that a payload of a megabyte does not travel: of one that may be moved, by its queue. Once for each claim of a job. A cost is
-- bounded as tokens are (metering.domain.MOST), so that no sum of them leaves its column. Returns what is new.
INSERT INTO metering_reading (job_id, fence, model, tokens_in, tokens_out, is_estimated, cost)
SELECT attempt.job_id, attempt.fence, left(name.model, 200), attempt.tokens_in, attempt.tokens_out, attempt.is_estimated,
       least(coalesce(round((attempt.tokens_in * price.price_in + attempt.tokens_out * price.price_out) / 1000000, 6), 0),
             1e12)  -- least() passes over a price that there is not
FROM unnest(%(job)s::bigint[], %(fence)s::bigint[], %(tokens_in)s::bigint[], %(tokens_out)s::bigint[],
            %(is_estimated)s::boolean[], %(path)s::text[])
     AS attempt (job_id, fence, tokens_in, tokens_out, is_estimated, path)
JOIN jobs_job AS job ON job.id = attempt.job_id
CROSS JOIN LATERAL (
    SELECT coalesce(job.payload #>> ARRAY['models', job.queue], job.payload #>> attempt.path::text[], '') AS model) AS name
LEFT JOIN metering_model AS price ON price.name = name.model
ON CONFLICT (job_id, fence) DO NOTHING
RETURNING job_id, model, tokens_in, tokens_out
