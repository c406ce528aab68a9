"""The handlers that come along: `chat` and `image`, and a demonstrator of each."""
