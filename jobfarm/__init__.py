"""The composition root: what makes one site of all the apps."""
