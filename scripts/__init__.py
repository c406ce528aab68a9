"""Tools of this repository. None of them is part of the farm."""
