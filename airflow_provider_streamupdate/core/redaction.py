"""Settings as they may be shown: the values of secrets are hidden."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

# Of a name in lower case, its words joined by "_". Beside what people call a secret only what is one: a `key` may be a
# column, an `author` a person, and a `tokenizer` is a part of an app.
_SECRET = re.compile(
    r"secret|password|passwd|passphrase|pwd|credential|jaas|trust_?store|keystore|(^|_)key_store|authorization|bearer|"
    r"token(?!i[sz])|storage_?options|connection_?string|basic_?auth|(^|_)sas(_|$)|(^|_)(db_?|user_?)?pass$|"
    r"(access|private|account|api|signing|encryption|decryption)_?key|"
    r"(^|_)(sign|ssh|ssl|tls|hmac|aes|rsa|pgp|gpg)_?key"
)
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")
# What a plan holds is compared with what older plans hold: a name that is hidden in the new one only would be a change.
_IN_PLANS = re.compile(
    r"secret|password|passwd|token|credential|access[._-]?key|private[._-]?key|account[._-]?key|fs\.azure\.sas|"
    r"passphrase|storage[._-]?options",
    re.IGNORECASE,
)
_WORDS_OF_ALL_TEXTS = ("true", "false", "none", "null")  # `...token.enabled=true` makes no secret of each "true"
HIDDEN = "(hidden)"
SHORTEST_LINE = 12  # the same for a line of a value that has several: a text may come line by line
SHORTEST = 4  # characters: to hide shorter values would hide half of a text, and keep nothing secret


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Return whether the name of a setting, an option or a part of an address suggests a secret."""
    return _SECRET.search(name.lower()) is not None or _SECRET.search(_WORDS.sub("_", name).lower()) is not None


def redacted(values: Mapping[str, str]) -> dict[str, str]:
    """Return the settings, with the values hidden of those whose names suggest a secret."""
    return {key: HIDDEN if is_secret(key) else value for key, value in values.items()}


def redacted_in_plan(values: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as a plan holds them: what is hidden here stays the same from release to release."""
    return {key: HIDDEN if _IN_PLANS.search(key) else value for key, value in values.items()}


def secret_values(*settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is to be hidden in a text of the settings whose names suggest a secret, the longest first."""
    found = {value for values in settings for key, value in values.items() if is_secret(key)}
    found |= {line for value in found for line in value.splitlines() if len(line) >= SHORTEST_LINE}
    told = (v for v in found if len(v) >= SHORTEST and v.lower() not in _WORDS_OF_ALL_TEXTS)
    return tuple(sorted(told, key=len, reverse=True))


def without_secrets(text: str, *settings: Mapping[str, str]) -> str:
    """Return the text without the values of settings whose names suggest a secret."""
    return without(text, secret_values(*settings))


def without(text: str, values: Iterable[str]) -> str:
    """Return the text with each of the values hidden."""
    for value in values:
        text = text.replace(value, HIDDEN)
    return text
