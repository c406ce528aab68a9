"""What becomes of guests and of sessions when their time is over."""

from datetime import timedelta

from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection

from accounts import handlers, queries
from accounts.models import Guest
from accounts.operations import groups
from postgres import clock
from scheduling import operations as scheduling
from scheduling.operations import Json

# In one transaction, which holds locks on each; where there are more, another one follows at once.
RETIRED_AT_ONCE = 20
ENDED_AT_ONCE = 200


@scheduling.mutation
def retire_guests() -> dict[str, Json]:
    """See guests off whose time is over: out of their groups, and deleted unless something of theirs is still there.

    What others see (a message, a picture, a job) stays, under the made-up name, of an account that nobody gets into.
    """
    ids = queries.guests_to_retire(now=clock.now(), limit=RETIRED_AT_ONCE)
    failures = scheduling.Failures()
    deleted = [_retire(guest, failures) for pk in ids if (guest := queries.lock_guest(pk))]
    if len(ids) == RETIRED_AT_ONCE:
        scheduling.run_after(timedelta(0), retire_guests)
    counts: dict[str, Json] = {"deleted": deleted.count(True), "kept": deleted.count(False)}
    return counts | ({"failed": dict(failures.reasons)} if failures.reasons else {})


@scheduling.mutation
def end_sessions() -> int:
    """Delete the sessions that ran out, so that the pages that they opened end too; how many."""
    over = Session.objects.filter(expire_date__lte=clock.now()).order_by("expire_date")[:ENDED_AT_ONCE]
    ended = [session.delete() for session in over]  # each by itself: whose it was is heard of by a signal
    if len(ended) == ENDED_AT_ONCE:
        scheduling.run_after(timedelta(0), end_sessions)
    return len(ended)


def _retire(guest: Guest, failures: scheduling.Failures) -> bool:
    """Whether the account could be deleted. One whose deletion fails stays as well, and is not tried again."""
    user = guest.user
    with failures.aside(user.get_username()):
        for group in queries.member_groups_of(user):
            groups.leave(group, by=user)
        if not queries.owns_something(user):
            User.objects.filter(pk=user.pk).delete()
            connection.check_constraints()  # now, and not at the commit, where it would be the fault of all
            return True
    User.objects.filter(pk=user.pk).update(is_active=False)  # no signal: that a guest is over is nothing to audit
    handlers.touch([user.pk])
    guest.retired_at = clock.now()
    guest.save(update_fields=["retired_at"])
    return False
