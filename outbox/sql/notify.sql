-- Wake the senders: messages were written, or something that held them back is over.
SELECT pg_notify('outbox', '')
