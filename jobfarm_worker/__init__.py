"""The client of a job farm that runs elsewhere: takes jobs, runs their handlers, reports what they do.

from jobfarm_worker import Worker
"""

from jobfarm_worker.asking import Child
from jobfarm_worker.errors import BadOption, Failed, JobStopped, Refused, Unauthorized, Unreachable, WrongServer
from jobfarm_worker.job import Job
from jobfarm_worker.options import written_labels
from jobfarm_worker.running import Handlers
from jobfarm_worker.worker import Worker

__all__ = [
    "BadOption", "Child", "Failed", "Handlers", "Job", "JobStopped", "Refused", "Unauthorized", "Unreachable", "Worker",
    "WrongServer", "written_labels",
]  # fmt: skip
