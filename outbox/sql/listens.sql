-- Whether any endpoint may ask for something.
SELECT EXISTS (SELECT FROM outbox_endpoint WHERE status <> 'disabled') AS listens
