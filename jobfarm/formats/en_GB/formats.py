"""Moments as the pages of the farm write them before a script has shown them in the zone of their reader, with their
seconds: who reads a log beside it compares them. live/admin.js knows them by their form."""

DATE_FORMAT = "j M Y"
DATETIME_FORMAT = "j M Y H:i:s T"
