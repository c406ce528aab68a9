"""What the events of each sender write: one module a sender, found by itself."""
