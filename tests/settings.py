"""The farm's settings as mypy reads them: with the examples, whose models it would not know otherwise."""

import os

from jobfarm.environment import EXAMPLES

os.environ.setdefault("JOBFARM_APPS", EXAMPLES)

from jobfarm.settings import *  # noqa: F403
