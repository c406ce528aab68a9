-- A notification that the sender wants to hear itself.
SELECT pg_notify(%(channel)s::text, 'hello')
