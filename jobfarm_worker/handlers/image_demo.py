"""`image` without an image model: computes a picture from the prompt, band by band, and shows it growing."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from jobfarm_worker.handlers.demo_picture import SIDE, Picture
from jobfarm_worker.handlers.payloads import prompt_of
from jobfarm_worker.job import Job
from jobfarm_worker.registry import Handler

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
