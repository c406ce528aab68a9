-- Where the server keeps its data, for those who may know; no row for others.
SELECT setting AS name FROM pg_settings WHERE name = 'data_directory' AND setting IS NOT NULL
