"""What the farm tells others, and where it must not be led."""
