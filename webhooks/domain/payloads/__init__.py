"""What the adapters' bodies promise: one module a sender, with only the fields that we use."""
