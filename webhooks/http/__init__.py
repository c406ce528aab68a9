"""The edge: eight addresses, served beside Django (docs/adr/0021)."""
