"""Names of settings, options and parameters that suggest a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

_CAMEL = "(?-i:(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]))"  # where a word begins within camelCase
# Beside what people call a secret only what is one: a `key` may be a column, an `author` a person, and a `tokenizer` is
# a part of an app. Forms refuse by it, too. Here "_" stands for any signs between two words, or none.
_NAME = (
    "(?i:s(?:ecret|torage_options)|p(?:ass(?:word|wd|phrase)|wd|rivate_key)|c(?:redential|onnection_string)|jaas|"
    "t(?:rust_store|oken(?!(?-i:i[sz]|(?<=TOKEN)I[SZ])))|keystore|b(?:earer|asic_auth)|"
    "a(?:uthorization|ccess_key|ccount_key|pi_key)|signing_key|(?:en|de)cryption_key|"
    "(?=[kspduthargSKPDUTHARG])BEGIN(?:key_store|s(?:asEND|ig$)|(?:db_|user_)?pass$|"
    "(?:sign|ssh|ssl|tls|hmac|aes|rsa|pgp|gpg)_key|(?:access|amz|goog)_signature$))"
)
_EDGES = {"_": "[^A-Za-z0-9]*", "BEGIN": f"(?:(?<![A-Za-z0-9])|{_CAMEL})", "END": f"(?:(?![A-Za-z0-9])|{_CAMEL})"}
NAME = re.compile(re.sub("|".join(_EDGES), lambda found: _EDGES[found[0]], _NAME))
HIDDEN = "(hidden)"
LONGEST_NAME = 300  # characters: what is longer is no name that somebody gave


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Return whether the name of a setting, an option or a part of an address suggests a secret."""
    if len(name) > LONGEST_NAME:
        return True
    return NAME.search(name) is not None


def redacted_in_plan(values: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as a plan holds them: secrets are hidden by their names alone."""
    return {key: HIDDEN if is_secret(key) else value for key, value in values.items()}
