"""What the farm needs of PostgreSQL beside the ORM: a server, transactions, a clock, statements, connections."""
