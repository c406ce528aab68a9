"""The HTTP API of the farm: the routers of its apps, one form of errors, the page that documents it."""

import functools
from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.parser import Parser
from ninja.renderers import JSONRenderer
from ninja.responses import NinjaJSONEncoder

from alerts.api import router as alerts_router
from core import api as core_api
from core.api import SAMPLE
from core.refusal import Refusal
from jobfarm import middleware, requests
from jobs.api import documents, router
from metering.api import router as metering_router
from openai_api.api import files_router as openai_files, router as openai_router
from outbox.api import router as outbox_router


class UnsupportedMediaType(Refusal, code="unsupported_media_type", http_status=415):
    """The body must be JSON, sent with `Content-Type: application/json`."""


class JsonParser(Parser):
    """Bodies are JSON, declared as JSON, and nothing that only Python accepts."""

    def parse_body(self, request: HttpRequest) -> Any:
        """The JSON value of the body. Raises UnsupportedMediaType, NotJsonError, LargeBodyError."""
        if request.content_type != "application/json":
            raise UnsupportedMediaType
        return core_api.loads(request, requests.cutting(request.path), most=settings.JOBFARM["BODY_BYTES"])


class WholeMoments(NinjaJSONEncoder):
    """Moments with all their digits, as the sockets and the event streams say them; Django's own cuts microseconds."""

    def default(self, o: Any) -> Any:
        if isinstance(o, datetime):
            return o.isoformat().replace("+00:00", "Z")
        return super().default(o)


class JsonRenderer(JSONRenderer):
    encoder_class = WholeMoments


class FarmApi(NinjaAPI):
    """Tells every refusal in the one form. Makes its document once: it takes a tenth of a second, and anybody may ask
    for it."""

    @functools.cached_property
    def _document(self) -> OpenAPISchema:
        document = super().get_openapi_schema()
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                call = documents.call_of(method, path, operation, operation.pop(SAMPLE))
                operation["description"] = documents.with_samples(operation["description"], call)
        return document

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        """The document. Only one for another prefix is made anew."""
        if path_prefix is None and not path_params:
            return self._document
        return super().get_openapi_schema(path_prefix=path_prefix, path_params=path_params)

    def on_exception(self, request: HttpRequest, exc: Any) -> HttpResponse:  # noqa: ARG002 (ninja's signature)
        return middleware.response_to(exc)


_BOTH: Any = {"version": "1", "parser": JsonParser(), "renderer": JsonRenderer()}
_PAGES: Any = {"docs_url": "/docs", "openapi_url": "/v1/openapi.json"}
api = FarmApi(title="jobfarm", description=documents.API, urls_namespace="api", **_PAGES, **_BOTH)
api.add_router("/v1", router)
api.add_router("/v1", metering_router)
api.add_router("/v1/outbox", outbox_router)
api.add_router("/v1/alerts", alerts_router)

openai = FarmApi(docs_url=None, openapi_url=None, urls_namespace="openai", **_BOTH)
openai.add_router("", openai_router)
openai.add_router("", openai_files)
