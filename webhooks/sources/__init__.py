"""How each sender signs, names, dates and repeats its deliveries: no Django, no clock, no dice."""
