"""The kind of the calls of OpenAI's API. Its jobs wait in the queues of their models (docs/adr/0084)."""

from typing import Final

from django.conf import settings

from jobs import operations
from metering import operations as metering
from openai_api import domain

CALL: Final = operations.declare(
    operations.Kind(
        name="openai", timeout_s=3600, keep_content=settings.OPENAI["KEEP_CONTENT"], redact=settings.OPENAI["REDACT"]
    ),
    output_text=domain.output_text,
)
metering.declare(CALL.name, model=("body", "model"), expected=domain.expected, used=domain.used, written=domain.written)
