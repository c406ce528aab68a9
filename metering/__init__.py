"""What jobs use: tokens, worker seconds and money, and the budgets that bound it (docs/usage.md)."""
