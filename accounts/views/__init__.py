"""Pages of people: in and out, one's account, groups."""
