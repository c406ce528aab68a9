"""What accounts do by the clock."""

from accounts import operations
from scheduling import operations as scheduling

scheduling.declare("guests whose time is over", scheduling.hourly(minute=17), operations.retire_guests)
scheduling.declare("sessions that ran out", scheduling.hourly(minute=47), operations.forget_sessions)
scheduling.declare("tokens that ran out", scheduling.interval(minutes=15), operations.end_tokens)
scheduling.declare("captchas that ran out", scheduling.hourly(minute=37), operations.forget_captchas)
