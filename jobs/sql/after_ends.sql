-- Which of these jobs of flows, whose ends are committed, left notes that are to be looked at.
SELECT id FROM jobs_after_ends(%(ids)s::bigint[])
