"""What the workers of the browser tests paint with: the demonstrator, small, and in the game without breaths."""

from jobfarm_worker.handlers import image_demo

paint = image_demo.handler(side=96, pace_s=0)
paint_watched = image_demo.handler(side=264)
