"""Who a request comes from."""

from django.contrib.auth.models import User
from django.http import HttpRequest


def person(request: HttpRequest) -> User:
    """Who is logged in; for views behind `login_required` or a check of rights, and for the administration."""
    assert isinstance(request.user, User)
    return request.user
