"""A worker that answers when the test lets it: what it is to write stands in a file, which grows meanwhile."""

import os
from pathlib import Path
from typing import Any, Final

from jobfarm_worker.job import Job

DICTATED: Final = "JOBFARM_TEST_DICTATED"  # the path of the file
END: Final = "\x04"


def write(job: Job) -> dict[str, Any]:
    """Write what is dictated, until its end."""
    dictated, written = Path(os.environ[DICTATED]), ""
    while END not in written:
        text = dictated.read_text()
        if len(text) > len(written):
            job.write(text[len(written) :].replace(END, ""))
        written = text
        job.pause(0.02)  # a file has nothing to wait for
    return {"text": written.replace(END, ""), "model": "demonstrator", "finish_reason": "stop"}
