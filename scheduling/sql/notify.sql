-- Tell the clusters that wait for these kinds that something is due, or will be.
SELECT pg_notify('scheduling', kind) FROM unnest(%(kinds)s::text[]) AS kind
