"""What a person looks for in jobs, taken apart: `key:value` of the payload, and text."""

import re
from dataclasses import dataclass
from typing import Final

# `https://…` is no key with a value, nor is `12:30`; a value with spaces stands in quotes.
_PAIR: Final = re.compile(r'(?<!\S)([A-Za-z_][\w.-]*):(?!//)(?:"([^"]+)"|([^\s"]+))(?!\S)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """`pairs`: the path of a key in the payload, and its value. `text`: the rest, as it was written."""

    pairs: tuple[tuple[tuple[str, ...], str], ...]
    text: str


def terms(text: str) -> Terms:
    """Return what `text` asks for: `options.seed:7 model:"sdxl turbo" fog` has two pairs and the text "fog"."""
    pairs = tuple((tuple(pair[1].split(".")), pair[2] or pair[3]) for pair in _PAIR.finditer(text))
    rest = _PAIR.sub("", text).strip() if pairs else text
    return Terms(pairs=tuple((path, value) for path, value in pairs if all(path)), text=rest)


def is_whole(value: str) -> bool:
    """Whether a value is compared as a whole: `seed:7` does not mean 17; of a text, a part is enough."""
    return bool(re.fullmatch(r"-?\d+(\.\d+)?|true|false|null", value))
