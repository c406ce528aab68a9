-- Whether this transaction may steal for a worker: one at a time does, and nobody waits. A statement of its own, before
-- the claim: what the claim sees is then no older than the lock, and holds what the steal before it has committed.
SELECT pg_try_advisory_xact_lock(%(class)s::int, (%(worker)s::bigint %% 2147483648)::int) AS may_steal
