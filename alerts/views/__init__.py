"""Pages and forms of alerts."""
