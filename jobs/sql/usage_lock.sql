-- Let no other transaction decide whether a file of this owner has room, until the end of this one.
SELECT pg_advisory_xact_lock(%(class)s::int, %(owner)s::int)
