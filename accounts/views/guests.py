"""Coming in as a guest: a picture with letters, and whoever reads them is in.

What makes the picture hard for programs are letters that bend, and lines of their thickness through them. Both are
hooks of django-simple-captcha, which seeds `random` by the captcha's key: a picture is the same each time."""

import math
import random
from typing import Any, Final

from captcha.views import captcha_image
from django import forms
from django.conf import settings
from django.contrib import auth
from django.contrib.auth.views import RedirectURLMixin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django.views.generic import FormView
from PIL import Image, ImageDraw

from accounts import domain, operations
from accounts.errors import CaptchaFailed, GuestsClosed
from accounts.limits import CAPTCHA_PICTURE
from accounts.operations.guests import GUEST_LIFE
from accounts.views import SESSION_MARK, closed, ways_in
from core import pages
from ratelimits import http as limits

INK: Final = "#001100"  # the library's, of letters too
LINES: Final = 2
THICKNESS: Final = 6  # of a letter's strokes 6 to 7
BEND: Final = 4.0  # pixels
STEP: Final = 6
_TURN: Final = 2 * math.pi


class _Forgotten(forms.PasswordInput):
    """A field that does not show what was typed before, as one of passwords: the next picture has other letters."""

    input_type = "text"


class GuestForm(forms.Form):
    """The letters that were read, and of which picture. A form that is shown again names another picture."""

    captcha = forms.CharField(max_length=40, required=False, widget=forms.HiddenInput)
    letters = forms.CharField(
        label="Letters in the picture",
        max_length=domain.CAPTCHA_LENGTH * 3,  # some type them with spaces
        widget=_Forgotten(
            attrs={"autocomplete": "off", "autocapitalize": "characters", "spellcheck": "false", "autofocus": True}
        ),
    )


@method_decorator(pages.private, name="dispatch")
class ComeAsGuest(RedirectURLMixin, FormView):  # type: ignore[type-arg]  # Django 6 has it plain
    """Let a visitor in who reads a picture. It works without JavaScript, and asks no other site."""

    http_method_names = ["get", "head", "post"]
    template_name, form_class, next_page = "accounts/guest.html", GuestForm, "/"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.user.is_authenticated:
            return HttpResponseRedirect(self.get_success_url())
        if not settings.JOBFARM["GUESTS"]:
            return closed(request, GuestsClosed())
        return super().dispatch(request, *args, **kwargs)

    def form_valid(self, form: GuestForm) -> HttpResponse:
        try:
            user = operations.enter_as_guest(**form.cleaned_data, address=limits.address(self.request))
        except CaptchaFailed as refusal:
            form.add_error("letters", refusal.message)
            return self.form_invalid(form)
        auth.login(self.request, user)
        self.request.session.set_expiry(GUEST_LIFE)
        self.request.session[SESSION_MARK] = True
        return super().form_valid(form)

    def form_invalid(self, form: GuestForm) -> HttpResponse:
        return self.render_to_response(self.get_context_data(form=form), status=422)

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        captcha = operations.new_captcha(address=limits.address(self.request))
        return super().get_context_data(**context) | {"next": self.get_redirect_url(), "captcha": captcha} | ways_in()


@require_safe
@never_cache
@limits.rate_limited(CAPTCHA_PICTURE, key=limits.address)
def captcha_picture(request: HttpRequest, captcha: str) -> HttpResponse:
    """The picture, drawn anew at each call, and the same each time."""
    response: HttpResponse = captcha_image(request, captcha, scale=2)
    return response


def lines(draw: ImageDraw.ImageDraw, image: Image.Image) -> ImageDraw.ImageDraw:
    """Draw waves through the letters: they tie them together, and are not thin enough to be told from them."""
    (width, height), rng = image.size, _rng()
    for _ in range(LINES):
        at = rng.uniform(0.2, 0.55) * height
        deep = rng.uniform(0.08, 0.2) * height
        long, phase = rng.uniform(120, 260), rng.uniform(0, _TURN)
        points = [(x, at + deep * math.sin(phase + _TURN * x / long)) for x in range(0, width, 3)]
        draw.line(points, fill=INK, width=THICKNESS, joint="curve")
    return draw


def bend(image: Image.Image) -> Image.Image:
    (width, height), rng = image.size, _rng()
    long, high = rng.uniform(90, 140), rng.uniform(70, 110)
    phase, other = rng.uniform(0, _TURN), rng.uniform(0, _TURN)

    def source(x: int, y: int) -> tuple[float, float]:
        aside = BEND * math.sin(phase + _TURN * y / high)
        return x + aside, y + 1.5 * BEND * (math.sin(other + _TURN * x / long) - 1)

    mesh = []
    for left in range(0, width, STEP):
        for top in range(0, height, STEP):
            right, bottom = min(left + STEP, width), min(top + STEP, height)
            corners = (source(left, top), source(left, bottom), source(right, bottom), source(right, top))
            mesh.append(((left, top, right, bottom), [part for corner in corners for part in corner]))
    return image.transform(image.size, Image.Transform.MESH, mesh, Image.Resampling.BICUBIC, fillcolor="#ffffff")


def _rng() -> random.Random:
    return random.Random(random.getrandbits(64))  # noqa: S311 (the library's, which it has seeded by the key)
