"""Compute a picture from a prompt: marbled noise, lit from one side, in colours that the prompt chose.

No image model: a demonstrator for machines that have none. A picture is computed in horizontal bands;
each depends on its rows alone, so any order and any number of bands give the same picture.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float64]
SIDE = 768
OCTAVES = 5
SAMPLES = 2  # per pixel and direction, against jagged edges
MARGIN = 3  # samples around a band, from which the light sees the slope
GOLDEN_ANGLE = 2.399963  # between two octaves, so that their grids never line up


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """Colours along a cycle: `base + swing * cos(2 pi (rate * t + phase))`, for red, green and blue."""

    base: Plane
    swing: Plane
    rate: Plane
    phase: Plane

    def at(self, t: Plane) -> Plane:
        """The colours (rows, columns, 3) at the places `t` of the cycle."""
        angle = 2 * np.pi * (t[..., None] * self.rate + self.phase)
        colours: Plane = self.base + self.swing * np.cos(angle)
        return colours


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
        self._light = rng.uniform(0, 2 * np.pi)
        self._palette = _palette(rng)

    def band(self, top: int, bottom: int) -> NDArray[np.uint8]:
        """The pixels of rows `top` to `bottom` (not included), shaped (rows, side, 3)."""
        height, fold, drift = self._marble(*self._places(top, bottom))
        colours = self._painted(_inner(height), _inner(fold), _inner(drift), self._lit(height))
        rows, columns = bottom - top, self.side
        averaged = colours.reshape(rows, SAMPLES, columns, SAMPLES, 3).mean(axis=(1, 3))
        pixels: NDArray[np.uint8] = (np.clip(averaged, 0, 1) * 255 + 0.5).astype(np.uint8)
        return pixels

    def _places(self, top: int, bottom: int) -> tuple[Plane, Plane]:
        """Where the samples of these rows lie on the noise, with a margin around them for the light."""
        columns = np.arange(-MARGIN, self.side * SAMPLES + MARGIN) + 0.5
        rows = np.arange(top * SAMPLES - MARGIN, bottom * SAMPLES + MARGIN) + 0.5
        x, y = np.meshgrid(columns * self._step + self._corner[0], rows * self._step + self._corner[1])
        return x, y

    def _marble(self, x: Plane, y: Plane) -> tuple[Plane, Plane, Plane]:
        """Noise at places that noise has moved, twice: its height, and how far each move went."""
        (ax, ay), (bx, by), (cx, cy), (dx, dy) = self._warps
        qx, qy = self._noise(x + ax, y + ay), self._noise(x + bx, y + by)
        by_q = self._strength
        rx = self._noise(x + by_q * qx + cx, y + by_q * qy + cy)
        ry = self._noise(x + by_q * qx + dx, y + by_q * qy + dy)
        height = self._noise(x + by_q * rx, y + by_q * ry)
        return height, np.hypot(qx, qy), np.hypot(rx, ry)

    def _noise(self, x: Plane, y: Plane) -> Plane:
        """Five octaves of smooth noise, each half as strong as the last, about 0 to 1."""
        total = np.zeros_like(x)
        strength = 0.5
        cos, sin = np.cos(GOLDEN_ANGLE), np.sin(GOLDEN_ANGLE)
        for _ in range(OCTAVES):
            total += strength * self._value(x, y)
            x, y = 2.03 * (cos * x - sin * y), 2.03 * (sin * x + cos * y)
            strength /= 2
        return total

    def _value(self, x: Plane, y: Plane) -> Plane:
        """The lattice's random numbers, blended between its points with continuous slope and curvature."""
        left, upper = np.floor(x), np.floor(y)
        u, v = _eased(x - left), _eased(y - upper)
        i, j = left.astype(np.int64) & 255, upper.astype(np.int64) & 255
        right, lower = (i + 1) & 255, (j + 1) & 255
        above = self._lattice[j, i] * (1 - u) + self._lattice[j, right] * u
        below = self._lattice[lower, i] * (1 - u) + self._lattice[lower, right] * u
        blended: Plane = above * (1 - v) + below * v
        return blended

    def _lit(self, height: Plane) -> Plane:
        """How bright a raking light makes each place, 0 to 1: from the slope towards the light."""
        right = height[MARGIN:-MARGIN, 2 * MARGIN :] - height[MARGIN:-MARGIN, : -2 * MARGIN]
        down = height[2 * MARGIN :, MARGIN:-MARGIN] - height[: -2 * MARGIN, MARGIN:-MARGIN]
        slope = (right * np.cos(self._light) + down * np.sin(self._light)) / (2 * MARGIN * self._step)
        lit: Plane = np.clip(0.5 - slope * 0.1, 0, 1)
        return lit

    def _painted(self, height: Plane, fold: Plane, drift: Plane, lit: Plane) -> Plane:
        """The colours of the samples: the palette along the height, a veil over the drift, and the light."""
        veil = np.clip(drift * 1.3 - 0.25, 0, 1)[..., None]
        colours = self._palette.at(height * 1.1 + 0.35 * fold) * (0.55 + 0.65 * veil)
        light = lit[..., None]
        painted: Plane = np.clip(colours, 0, 1) ** 0.9 * (0.72 + 0.5 * light) + 0.10 * light**6
        return painted


def _inner(plane: Plane) -> Plane:
    return plane[MARGIN:-MARGIN, MARGIN:-MARGIN]


def _eased(t: Plane) -> Plane:
    eased: Plane = t * t * t * (t * (t * 6 - 15) + 10)
    return eased


def _palette(rng: np.random.Generator) -> Palette:
    """A palette that stays between dark and bright, whose channels run apart but at related rates."""
    start = rng.random()
    spread = rng.uniform(0.08, 0.22)
    return Palette(
        base=np.array([0.52, 0.48, 0.50]) + rng.uniform(-0.06, 0.06, 3),
        swing=np.array([0.46, 0.42, 0.44]),
        rate=np.array([1.0, 1.0, 1.0]) * rng.choice([0.9, 1.2, 1.5]),
        phase=start + spread * np.array([0.0, 1.0, 2.0]),
    )
