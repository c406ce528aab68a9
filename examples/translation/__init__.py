"""A document in three languages, as a flow."""
