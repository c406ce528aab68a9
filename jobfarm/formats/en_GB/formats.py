"""Moments with their seconds, in the order in which they sort: who reads a log beside it compares them."""

DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = "Y-m-d H:i:s"
