"""What every app says the same way: refusals, backoff, the audit, the signed-in person, ASGI types and bodies, and what
the pages of the administration are made of. `refusal`, `backoff`, `asgi` and `bodies` import no Django."""
