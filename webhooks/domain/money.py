"""Amounts as Stripe counts them: whole numbers of the currency's smallest unit."""

# How many digits follow the point: two, but for these. Stripe's list of zero-decimal and three-decimal currencies.
_NONE = frozenset(
    {"BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF"}
)
_THREE = frozenset({"BHD", "JOD", "KWD", "OMR", "TND"})


def shown(amount: int, currency: str) -> str:
    """`20.00 USD` for 2000 and "usd". Without a currency just the number: nobody knows its unit."""
    code = currency.upper()
    digits = 0 if code in _NONE or not code else 3 if code in _THREE else 2
    whole, rest = divmod(abs(amount), 10**digits)
    fraction = f".{rest:0{digits}d}" if digits else ""
    return f"{'-' if amount < 0 else ''}{whole}{fraction} {code}".rstrip()
