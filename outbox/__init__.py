"""Events for others: signed, kept and repeated until each endpoint that asked has taken them."""
