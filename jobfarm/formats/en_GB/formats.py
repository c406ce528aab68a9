"""Moments as the farm's own pages write them before a script has shown them in the reader's zone, with their seconds: who
reads a log beside it compares them. live/admin.js knows them by their form."""

DATE_FORMAT = "j M Y"
DATETIME_FORMAT = "j M Y H:i:s T"
