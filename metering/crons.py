"""What is done regularly. The roll-up fires within a minute after jobs were counted, and rarely otherwise."""

from django.conf import settings

from metering import operations
from metering.models import Day, Window
from scheduling.operations import Missed, daily, declare, interval, keep

declare(operations.COUNT_USAGE, interval(minutes=15), operations.roll_up)
declare("forget usage", daily(hour=4, minute=40), operations.forget, missed=Missed.ONCE)
keep("days of usage", Day.objects.all(), by="day", days=lambda: settings.METERING["RETENTION_DAYS"])
keep(
    "windows of budgets", Window.objects.filter(reserved=0), by="starts_at",
    days=lambda: settings.METERING["RETENTION_DAYS"],
)  # fmt: skip
