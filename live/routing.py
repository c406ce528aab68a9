from typing import Any

from channels.sessions import CookieMiddleware
from django.urls import path

from live.admission import Admission
from live.consumer import LiveConsumer
from live.origins import SameOrigin

# The consumer finds the person of the session by itself, in a thread of ours: see live.people.
application: Any = Admission(SameOrigin(CookieMiddleware(LiveConsumer.as_asgi())))

websocket_urlpatterns = [path("ws/live/", application)]
