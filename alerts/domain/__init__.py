"""Rules of the app: plain Python that reads no clock and no database."""
