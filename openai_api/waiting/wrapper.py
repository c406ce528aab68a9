"""The ASGI wrapper around Django for the calls of OpenAI's API; all others go straight through."""

import re
from typing import Final

from core.asgi import App, Receive, Scope, Send
from jobs import http as jobs_http
from jobs.waiting.notifier import Stopping
from jobs.waiting.upstream import Django
from openai_api.domain import PATHS
from openai_api.waiting.calls import WaitingCall

_CALL: Final = re.compile(rf"/v1/({'|'.join(PATHS)})(/(resp_)?[0-9]{{1,19}}(/events)?)?")


class OpenAICalls:
    """Serves HTTP for `app`, which is Django's."""

    def __init__(self, app: App, *, stopping: Stopping) -> None:
        self._app = app
        self._stopping = stopping
        self._django = Django(app, notes=[jobs_http.STREAMS])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = _CALL.fullmatch(scope["path"].removeprefix(scope.get("root_path", "")))
        if match and scope["method"] == ("GET" if match[2] else "POST"):
            await WaitingCall(self._django, self._stopping, scope, receive, send).serve()
        else:
            await self._app(scope, receive, send)
