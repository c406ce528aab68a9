-- What running jobs of an owner (0: all) wrote that is not charged yet: what is beyond their last whole MiB. Reads
-- every running job, so it is asked only before output is refused.
SELECT coalesce(sum(output_bytes - jobs_kept_output(0, output_bytes, lease_secret)), 0)::bigint AS output_bytes
FROM jobs_live
WHERE lease_secret IS NOT NULL AND (%(owner)s::integer = 0 OR owner_id = %(owner)s::integer)
