"""The server's entry: `uvicorn jobfarm.asgi:application --ws websockets-sansio --lifespan on`."""

import os
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from jobs.waiting.asking import App

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")

from django.core.asgi import get_asgi_application

django = get_asgi_application()

from jobfarm.server import Server  # noqa: E402  # its apps need Django set up

application = Server(cast("App", django))
