"""What makes the picture of a captcha hard for programs: letters that bend, and lines of their thickness through them.

Both are hooks of django-simple-captcha, which seeds `random` by the captcha's key: a picture is the same each time.
"""

import math
import random
from typing import Final

from PIL import Image, ImageDraw

INK: Final = "#001100"  # the library's, of letters too
LINES: Final = 2
THICKNESS: Final = 6  # of a letter's strokes 6 to 7
BEND: Final = 4.0  # pixels
STEP: Final = 6
_TURN: Final = 2 * math.pi


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
