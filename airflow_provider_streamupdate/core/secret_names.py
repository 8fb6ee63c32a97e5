"""Names of settings, options and parameters that suggest a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

# Of a name in lower case, its words joined by "_". Beside what people call a secret only what is one: a `key` may be a
# column, an `author` a person, and a `tokenizer` is a part of an app.
_SECRET = re.compile(
    r"secret|password|passwd|passphrase|pwd|credential|jaas|trust_?store|keystore|(^|_)key_store|authorization|bearer|"
    r"token(?!i[sz])|storage_?options|connection_?string|basic_?auth|(^|_)sas(_|$)|(^|_)(db_?|user_?)?pass$|"
    r"(access|private|account|api|signing|encryption|decryption)_?key|"
    r"(^|_)(sign|ssh|ssl|tls|hmac|aes|rsa|pgp|gpg)_?key|(^|_)(access|amz|goog)_signature$|(^|_)sig$"
)
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")
HIDDEN = "(hidden)"
LONGEST_NAME = 300  # characters: what is longer is no name that somebody gave


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Return whether the name of a setting, an option or a part of an address suggests a secret."""
    if len(name) > LONGEST_NAME:
        return True
    return _SECRET.search(name.lower()) is not None or _SECRET.search(_WORDS.sub("_", name).lower()) is not None


def redacted_in_plan(values: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as a plan holds them: secrets are hidden by their names alone."""
    return {key: HIDDEN if is_secret(key) else value for key, value in values.items()}
