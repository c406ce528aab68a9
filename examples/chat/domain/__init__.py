"""The rules of the chat as plain Python."""
