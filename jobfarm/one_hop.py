"""Django's part of the server: one thread for each request, entered once."""

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class OneHop(ASGIHandler):
    """Django's handler for ASGI, with the middlewares and the view together in one hop into the request's thread.

    No view of ours is asynchronous: what waits, waits outside Django (jobs.waiting). Django's own chain is, and its
    middlewares are not, so each of them would go into the thread and come back, before and after the view: some fifteen
    hops, more than half of the processor time of a small request.
    """

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: ARG002 (Django's own signature)
        """Make the chain of middlewares, a synchronous one."""
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        """The answer, of middlewares and view."""
        return await sync_to_async(self.get_response, thread_sensitive=True)(request)
