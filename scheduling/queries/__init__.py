"""Statements. Nobody else in the app opens a table."""
