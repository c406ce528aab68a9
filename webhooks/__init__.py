"""A durable inbox for webhooks: verified, stored, then answered; processed once, retried, replayable."""
