"""The server's entry, for uvicorn as `jobfarm.management.commands.web` configures it."""

import gc
import os

gc.disable()  # until all is loaded: `jobfarm.server.freeze`
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")

import django  # noqa: E402 (after the collector and the settings)

django.setup(set_prefix=False)

from jobfarm.one_hop import OneHop  # noqa: E402  # they need Django set up
from jobfarm.server import Server, freeze  # noqa: E402

application = Server(OneHop())
freeze()
