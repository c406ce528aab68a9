"""Group chat with an assistant whose answers are jobs."""
