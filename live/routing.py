"""Where the browser's socket is."""

from typing import Any

from channels.security.websocket import AllowedHostsOriginValidator
from channels.sessions import CookieMiddleware
from django.urls import path

from live.admission import Admission
from live.consumer import LiveConsumer

# A socket carries the cookies of whoever opens it, so only pages of our own hosts may. The consumer finds the
# person of the session by itself, in a thread of ours: see live.people.
application: Any = Admission(AllowedHostsOriginValidator(CookieMiddleware(LiveConsumer.as_asgi())))

websocket_urlpatterns = [path("ws/live/", application)]
