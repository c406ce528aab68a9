"""Guards that are taken out of a copy of the tree, one at a time: the named tests have to notice (docs/chaos.md)."""
