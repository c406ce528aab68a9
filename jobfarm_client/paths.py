"""Where a farm's API is."""

JOBS = "/api/v1/jobs"
UPLOADS = "/api/v1/files"


def of_job(job_id: int, part: str = "") -> str:
    """The path of a job, or of a part of it."""
    return f"{JOBS}/{job_id}{part}"
