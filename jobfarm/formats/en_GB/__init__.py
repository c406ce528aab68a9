"""For LANGUAGE_CODE en-gb."""
