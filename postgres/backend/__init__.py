"""The database backend of the farm: Django's own for PostgreSQL, and the embedded server when it is needed."""
