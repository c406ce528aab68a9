"""How each source signs, names, dates and repeats its deliveries: no Django, no clock, no dice.

`requests` has the three ways to sign, `configs` the eight sources, one after another.
"""
