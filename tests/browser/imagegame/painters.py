"""What the worker of the browser tests paints with: the demonstrator, small and without breaths in between."""

from jobfarm_worker.handlers import image_demo

paint = image_demo.handler(side=96, pace_s=0)
