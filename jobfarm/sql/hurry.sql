-- Let no statement of this transaction take longer: whoever only looks must not be in the way.
SELECT set_config('statement_timeout', (%(ms)s::bigint)::text, true)
