"""Rules of metering: how tokens are read of results, windows of budgets, and where a job finds room. Plain Python."""
