-- See to it that queues stand as this transaction's snapshot says: for serializable ones, which get a serialization
-- failure here if a ceiling was moved since. In the order of their names.
SELECT name FROM jobs_queue WHERE name = ANY (%(names)s::text[]) ORDER BY name FOR SHARE
