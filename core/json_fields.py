"""A field of forms in which people type JSON."""

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput, JSONString

from core import values


class StrictJSON(forms.JSONField):
    """JSON as bodies of requests are read: nothing that PostgreSQL refuses, nor what readers take differently."""

    empty_values = [None, ""]

    def to_python(self, value: Any) -> Any:
        if not isinstance(value, str) or isinstance(value, JSONString) or value in self.empty_values:
            return value or None if isinstance(value, str) else value
        try:
            document = values.storable(value)
        except ValueError as error:
            raise ValidationError(f"This is not JSON: {error}.") from None
        return JSONString(document) if isinstance(document, str) else document

    def bound_data(self, data: Any, initial: Any) -> Any:  # noqa: ARG002  # the form's
        """What the form shows again: as it was typed, where it cannot be read."""
        try:
            return self.to_python(data)
        except ValidationError:
            return InvalidJSONInput(data)

    def prepare_value(self, value: Any) -> Any:
        if value is None and not self.required:
            return ""
        return value if isinstance(value, InvalidJSONInput) else json.dumps(value, ensure_ascii=False, indent=2)
