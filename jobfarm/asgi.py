"""The server's entry: `uvicorn jobfarm.asgi:application --ws websockets-sansio --lifespan on`."""

import os
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from jobs.waiting.asking import App

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")

import django

django.setup(set_prefix=False)

from jobfarm import collector  # noqa: E402  # they need Django set up
from jobfarm.one_hop import OneHop  # noqa: E402
from jobfarm.server import Server  # noqa: E402

application = Server(cast("App", OneHop()))
collector.freeze()
