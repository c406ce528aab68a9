"""Moments as the farm's own pages write them, with their seconds: who reads a log beside it compares them."""

DATE_FORMAT = "j M Y"
DATETIME_FORMAT = "j M Y H:i:s"
