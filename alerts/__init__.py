"""Alerts: rules that people make over what the farm knows of itself, judged every minute, and their messages."""
