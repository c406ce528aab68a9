-- Which process of the server has a prepared statement of this name, if the one that serves us does.
SELECT pg_backend_pid() AS pid FROM pg_prepared_statements WHERE name = %(name)s
