"""Rate limits that store two numbers."""
