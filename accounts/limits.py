"""How often somebody may fail to log in, sign up or come as a guest, and make and join groups."""

from datetime import timedelta

from ratelimits.operations import TokenBucket, declare

# Failed ones, by the name that was tried and the address that tried it, together; a success gives back what it took.
LOG_IN = declare("log-in", TokenBucket(10, timedelta(hours=1)))
# Whatever names an address tries: an office behind one address is many people who mistype.
LOG_IN_ADDRESS = declare("log-in/address", TokenBucket(30, timedelta(hours=1)))
# A name, from wherever it is tried. So slow that a stranger at one address cannot lock its owner out elsewhere, and of
# any number of strangers no more than 2,500 a day are checked.
LOG_IN_NAME = declare("log-in/name", TokenBucket(100, timedelta(hours=1)))
# Links that open nothing, by address. Apart from LOG_IN: who mistyped a password ten times is sent a link.
LINK = declare("log-in/link", TokenBucket(10, timedelta(hours=1)))

# Lines of the audit log about failures, by the address that they come from.
AUDITED = declare("audit/failures", TokenBucket(30, timedelta(hours=1)))

# By person (of guests, by their session).
CREATE_GROUP = declare("groups/create", TokenBucket(1, timedelta(minutes=1), capacity=2))
JOIN_GROUP = declare("groups/join", TokenBucket(1, timedelta(seconds=1), capacity=3))

# New accounts of the whole farm: a burst is a class that begins, a stream is a program.
SIGN_UP = declare("sign-up", TokenBucket(10, timedelta(minutes=1), capacity=50))
# Tries to sign up, by address; those refused for a name that is taken too, so nobody tries out names by the thousand.
SIGN_UP_TRY = declare("sign-up/address", TokenBucket(30, timedelta(hours=1)))
# New guests of the whole farm, and answers to captchas (right ones too) and pictures of them, by address.
GUESTS = declare("guests", TokenBucket(60, timedelta(minutes=1), capacity=200))
CAPTCHA = declare("guests/captcha", TokenBucket(20, timedelta(hours=1)))
CAPTCHA_PICTURE = declare("guests/picture", TokenBucket(60, timedelta(minutes=1)))
