"""The kind of its steps."""

from jobs import operations

operations.declare(operations.Kind(name="document"))
