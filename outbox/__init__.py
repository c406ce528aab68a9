"""What the farm tells others: signed events, kept and repeated until each endpoint that asked has taken them."""
