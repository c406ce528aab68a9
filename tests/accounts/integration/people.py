"""Words for tests about getting in: a captcha read as a person reads it, a guest, a browser."""

from captcha.models import CaptchaStore
from django.contrib.auth.models import User
from django.test import Client

from accounts import limits, operations
from accounts.views.logins import Adapter
from ratelimits import operations as ratelimits
from tests import farm

HERE = "address:10.0.0.1"


def solution(captcha: str) -> str:
    """The letters in a picture."""
    return str(CaptchaStore.objects.get(hashkey=captcha).challenge)


def guest(*, address: str = HERE) -> User:
    """Somebody who read a picture."""
    captcha = operations.new_captcha(address=address)
    return operations.enter_as_guest(captcha=captcha, letters=solution(captcha), address=address)


def sign_up(username: str = "ada", *, address: str = HERE, email: str | None = None, guest: User | None = None) -> User:
    """Somebody new, with farm.PASSWORD."""
    ratelimits.limit(limits.SIGN_UP_TRY, key=address, throws=True)
    person = User(username=Adapter().clean_username(username), email=User.objects.normalize_email(email))
    person.set_password(farm.PASSWORD)
    return operations.sign_up(person, guest=guest)


def come_as_guest(client: Client, **fields: str) -> str:
    """Read the picture on the page and come in; where one is sent then."""
    captcha = client.get("/accounts/guest/").context["captcha"]
    answer = client.post("/accounts/guest/", {"captcha": captcha, "letters": solution(captcha)} | fields)
    return answer.headers.get("Location", "")
