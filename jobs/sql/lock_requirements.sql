-- The known ones among these requirements, kept from being forgotten until the transaction ends (forget_requirements).
SELECT id, text FROM jobs_requirement WHERE text = ANY (%(texts)s::text[]) ORDER BY id FOR KEY SHARE
