"""What a program reads of the pictures that let guests in."""

import io
import os
import random
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from captcha.models import CaptchaStore
from django.test import Client
from PIL import Image, ImageDraw, ImageFilter, ImageOps

from accounts import domain
from accounts.views import guests

pytestmark = pytest.mark.django_db
PICTURES = 50
MOST_READ = 1


def _pictures() -> Iterator[tuple[str, Image.Image]]:
    """Letters and pictures, the same at each run."""
    rng = random.Random(7)
    for number in range(PICTURES):
        letters = domain.captcha_text(rng=rng)
        store = CaptchaStore.objects.create(challenge=letters, response=letters.lower(), hashkey=f"key-{number}")
        answer = Client(REMOTE_ADDR=f"192.0.2.{number}").get(f"/accounts/guest/{store.hashkey}.png")
        assert answer.status_code == 200
        yield letters, Image.open(io.BytesIO(answer.content)).convert("L")


def _prepared(picture: Image.Image) -> Iterator[Image.Image]:
    """As it is, and with what removes dots and thin lines."""
    grey = ImageOps.expand(ImageOps.autocontrast(picture), 20, 255)
    black = grey.point(lambda shade: 255 if shade > 140 else 0)
    yield grey
    yield grey.filter(ImageFilter.MedianFilter(9)).point(lambda shade: 255 if shade > 140 else 0)
    yield black.filter(ImageFilter.MaxFilter(5)).filter(ImageFilter.MinFilter(5))


def _read(picture: Image.Image) -> str:
    png = io.BytesIO()
    picture.save(png, "PNG")
    command = ["tesseract", "-", "-", "--psm", "8", "-c", f"tessedit_char_whitelist={domain.CAPTCHA_LETTERS}"]
    done = subprocess.run(
        command, input=png.getvalue(), capture_output=True, env={**os.environ, "OMP_THREAD_LIMIT": "1"},
        check=True, timeout=60,
    )  # fmt: skip
    return "".join(done.stdout.decode().split())


@pytest.mark.long
def test_tesseract_reads_one_of_fifty_at_most() -> None:
    """It knows which letters there are, and cleans the picture in three ways. It read five of twelve."""
    letters, pictures = zip(*_pictures(), strict=True)
    tries = [(at, one) for at, picture in enumerate(pictures) for one in _prepared(picture)]
    with ThreadPoolExecutor(2) as pool:
        read = pool.map(_read, [one for _, one in tries])
        right = {at for (at, _), text in zip(tries, read, strict=True) if text == letters[at]}
    assert len(right) <= MOST_READ, sorted(letters[at] for at in right)


def test_a_picture_is_the_same_each_time_and_no_two_are_alike() -> None:
    first, again, other = (_bent(seed) for seed in (1, 1, 2))
    assert first == again != other


def _bent(seed: int) -> bytes:
    random.seed(seed)
    image = Image.new("RGB", (200, 90), "#ffffff")
    guests.lines(ImageDraw.Draw(image), image)
    return guests.bend(image).tobytes()
