"""Statements about pictures and games."""
