"""`image` without an image model: marbled noise in colours that the prompt chose, computed band by band and shown
growing. A band depends on its rows alone, so any order and any number of bands give the same picture."""

import hashlib
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from jobfarm_worker.handlers.calls import prompt_of
from jobfarm_worker.job import Job
from jobfarm_worker.running import Handler

Plane = NDArray[np.float64]
SIDE = 768
OCTAVES = 5
SAMPLES = 2  # per pixel and direction, against jagged edges
GOLDEN_ANGLE = 2.399963  # between two octaves, so that their grids never line up


class Picture:
    def __init__(self, prompt: str, *, side: int = SIDE) -> None:
        """`side`: width and height in pixels. The same prompt gives the same picture."""
        seed = int.from_bytes(hashlib.sha256(prompt.encode("utf-8", "replace")).digest()[:8], "big")
        rng = np.random.default_rng(seed)
        self.side = side
        self._lattice = rng.random((256, 256))
        self._step = rng.uniform(2.0, 3.6) / (side * SAMPLES)
        self._corner = rng.uniform(0, 200, size=2)
        self._warps = rng.uniform(-50, 50, size=(4, 2))
        self._strength = rng.uniform(2.6, 4.4)
        # Colours along a cycle stay between dark and bright: red, green and blue run apart, at one rate.
        self._base = np.array([0.52, 0.48, 0.50]) + rng.uniform(-0.06, 0.06, 3)
        self._rate = rng.choice([0.9, 1.2, 1.5])
        self._phase = rng.random() + rng.uniform(0.08, 0.22) * np.arange(3)

    def band(self, top: int, bottom: int) -> NDArray[np.uint8]:
        """The pixels of rows `top` to `bottom` (not included), shaped (rows, side, 3)."""
        columns = np.arange(self.side * SAMPLES) + 0.5
        rows = np.arange(top * SAMPLES, bottom * SAMPLES) + 0.5
        x, y = np.meshgrid(columns * self._step + self._corner[0], rows * self._step + self._corner[1])
        colours = self._painted(*self._marble(x, y))
        averaged = colours.reshape(bottom - top, SAMPLES, self.side, SAMPLES, 3).mean(axis=(1, 3))
        pixels: NDArray[np.uint8] = (np.clip(averaged, 0, 1) * 255 + 0.5).astype(np.uint8)
        return pixels

    def _marble(self, x: Plane, y: Plane) -> tuple[Plane, Plane, Plane]:
        """Noise at places that noise has moved, twice: its height, and how far each move went."""
        a, b, c, d = self._warps
        qx, qy = self._noise(x + a[0], y + a[1]), self._noise(x + b[0], y + b[1])
        moved_x, moved_y = x + self._strength * qx, y + self._strength * qy
        rx, ry = self._noise(moved_x + c[0], moved_y + c[1]), self._noise(moved_x + d[0], moved_y + d[1])
        height = self._noise(x + self._strength * rx, y + self._strength * ry)
        return height, np.hypot(qx, qy), np.hypot(rx, ry)

    def _noise(self, x: Plane, y: Plane) -> Plane:
        """Octaves of smooth noise, each half as strong as the last, about 0 to 1."""
        total, cos, sin = np.zeros_like(x), np.cos(GOLDEN_ANGLE), np.sin(GOLDEN_ANGLE)
        for octave in range(OCTAVES):
            total += 0.5 ** (octave + 1) * self._value(x, y)
            x, y = 2.03 * (cos * x - sin * y), 2.03 * (sin * x + cos * y)
        return total

    def _value(self, x: Plane, y: Plane) -> Plane:
        """The lattice's random numbers, blended between its points with continuous slope."""
        left, upper = np.floor(x), np.floor(y)
        u, v = ((t * t * (3 - 2 * t)) for t in (x - left, y - upper))
        i, j = left.astype(np.int64) & 255, upper.astype(np.int64) & 255
        right, lower = (i + 1) & 255, (j + 1) & 255
        above = self._lattice[j, i] * (1 - u) + self._lattice[j, right] * u
        below = self._lattice[lower, i] * (1 - u) + self._lattice[lower, right] * u
        blended: Plane = above * (1 - v) + below * v
        return blended

    def _painted(self, height: Plane, fold: Plane, drift: Plane) -> Plane:
        """The colours of the cycle along the height, under a veil over the drift."""
        angle = 2 * np.pi * ((height * 1.1 + 0.35 * fold)[..., None] * self._rate + self._phase)
        veil = np.clip(drift * 1.3 - 0.25, 0, 1)[..., None]
        painted: Plane = np.clip((self._base + 0.45 * np.cos(angle)) * (0.55 + 0.65 * veil), 0, 1) ** 0.9
        return painted


FILE, PREVIEW = "picture.png", "preview.png"
BANDS = 24
PREVIEW_EVERY = 3  # bands
PREVIEW_SIDE = 256
CANVAS = 24  # the grey of what is not painted yet
PACE_S = 0.08  # a breath after each band, so that a fast machine can be watched too
NOTICE = "(demonstrator: no image model is configured) "
Pixels = NDArray[np.uint8]


def handler(*, side: int = SIDE, pace_s: float = PACE_S) -> Handler:
    """A handler for the same payloads as `image`, with `picture.png` and, meanwhile, `preview.png` as files.

    `side` is the picture's width and height in pixels, a multiple of 24. The same prompt gives the same
    picture. Result: `{"file", "model": "demonstrator", "width", "height"}`.
    """

    def image(job: Job) -> dict[str, Any]:
        prompt = prompt_of(job.payload)
        job.progress(0.0, "Starting")
        job.write(f"{NOTICE}Painting “{prompt}” as marbled noise.\n")
        job.progress(0.02, "Sketching")
        picture, canvas = Picture(prompt, side=side), np.full((side, side, 3), CANVAS, dtype=np.uint8)
        for number in range(1, BANDS + 1):
            job.progress(0.02 + 0.94 * (number - 1) / BANDS, f"Painting band {number} of {BANDS}")
            _paint(picture, canvas, number)
            if number % PREVIEW_EVERY == 0:
                job.file(PREVIEW, _png(canvas, side=min(PREVIEW_SIDE, side)))
            job.pause(pace_s)
        job.progress(0.97, "Saving")
        job.file(FILE, _png(canvas, side=side))
        return {"file": FILE, "model": "demonstrator", "width": side, "height": side}

    return image


def painted(prompt: str, *, side: int) -> bytes:
    """The picture of a prompt at once, as PNG; `side` in pixels, a multiple of 24."""
    picture, canvas = Picture(prompt, side=side), np.full((side, side, 3), CANVAS, dtype=np.uint8)
    for number in range(1, BANDS + 1):
        _paint(picture, canvas, number)
    return _png(canvas, side=side)


def _paint(picture: Picture, canvas: Pixels, number: int) -> None:
    height = picture.side // BANDS
    top = (number - 1) * height
    canvas[top : top + height] = picture.band(top, top + height)


def _png(canvas: Pixels, *, side: int) -> bytes:
    image, data = Image.fromarray(canvas), io.BytesIO()
    if side != canvas.shape[0]:
        image = image.resize((side, side), Image.Resampling.BILINEAR)
    image.save(data, format="PNG")
    return data.getvalue()
