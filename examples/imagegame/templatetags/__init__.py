"""Words of the chat for its templates."""
