"""The kind that paints, with what it calls here: pictures of the game follow the jobs that paint them."""

from examples.imagegame import operations
from jobs.kinds import IMAGE, declare

declare(IMAGE, prepare=operations.prepared, on_transition=operations.follow)
