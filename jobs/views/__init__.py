"""Pages of jobs, queues and workers."""
