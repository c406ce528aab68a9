"""What is done regularly. Rules are judged every minute: a farm without rules reads one empty list."""

from alerts import operations
from alerts.models import Notification
from scheduling.operations import Missed, daily, declare, interval, keep

declare(operations.CRON, interval(minutes=1), operations.watch)
declare("notifications that nobody sent", daily(hour=4, minute=20), operations.fail_forgotten, missed=Missed.ONCE)
keep("notifications", Notification.objects.all(), by="created_at", days=30)
