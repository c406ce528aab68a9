"""The server's entry, for uvicorn as `jobfarm.management.commands.web` configures it."""

import gc
import os

gc.disable()  # until all is loaded: `jobfarm.server.freeze`
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")

import django  # noqa: E402 (after the collector and the settings)

django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402
from django.db import connections  # noqa: E402

from jobfarm.server import OneHop, Server, freeze  # noqa: E402  # they need Django set up
from postgres import configuration  # noqa: E402

# A quarter: a worker hears that a row is locked before it gives this process up for silent, and a row that a stopped
# process has locked is free again before its lease is over.
configuration.bounded(
    connections["default"].settings_dict,
    lock_s=max(1.0, settings.JOBFARM["HEARTBEAT_S"] / 4),
    idle_s=max(1.0, settings.JOBFARM["LEASE_S"] / 4),
)

application = Server(OneHop())
freeze()
