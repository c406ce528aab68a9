"""The farm's application, whose calls are written down."""

from benchmarks import recorded
from jobfarm.asgi import application

recorded.begin()
__all__ = ["application"]
