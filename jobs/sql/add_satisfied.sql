-- Note on workers that they satisfy one more requirement; their rows in the order of their ids, as everywhere.
UPDATE jobs_worker SET satisfies = satisfies || %(requirement)s::integer
WHERE id = ANY (ARRAY(SELECT id FROM jobs_worker WHERE id = ANY (%(workers)s::bigint[]) ORDER BY id FOR UPDATE))
