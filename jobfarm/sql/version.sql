-- Which PostgreSQL answers: as a number to compare, and as text to show.
SELECT current_setting('server_version_num')::integer AS number, current_setting('server_version') AS name
