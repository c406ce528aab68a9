"""What accounts do by the clock. Django itself leaves sessions lying that ran out."""

from captcha.models import CaptchaStore
from django.contrib.sessions.models import Session

from accounts import operations
from scheduling import operations as scheduling

scheduling.declare("guests whose time is over", scheduling.hourly(minute=17), operations.retire_guests)
scheduling.declare("tokens that ran out", scheduling.interval(minutes=15), operations.end_tokens)
scheduling.keep("sessions", Session.objects.all(), by="expire_date")
scheduling.keep("captchas", CaptchaStore.objects.all(), by="expiration")
