"""Statements, and what several read."""
