"""The composition root: what makes one site of all the apps."""

__version__ = "0.1.0"
