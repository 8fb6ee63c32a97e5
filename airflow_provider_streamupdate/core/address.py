"""Addresses, alone or within a text, as they may be shown: without user, password and signature."""

from __future__ import annotations

import re

from .redaction import is_secret

HIDDEN = "***"
CONTAINERS = ("abfs", "abfss", "wasb", "wasbs")  # container@account: what is before the @ is a place, and no user
_STORES = ("s3", "s3a", "s3n", "gs", "gcs")  # a bucket has no port
# A password may hold an @ and slashes of its own: after a colon all is hidden up to the last @.
_USER = re.compile(r"(?<![\w+.-])(?P<scheme>[\w+.-]+)://(?P<user>[^/\s@:]*:(?P<port>\d{1,5}[/?#])?\S*|[^/\s]*)@")
_GIVEN = re.compile(r"(?P<start>([?&;#]|%3f|%26)(?P<name>[^\s=?&;#/%]{1,80})=)[^\s&;#]+", re.IGNORECASE)
_SIGNATURE = re.compile(r"(^|[^a-z])sig(nature)?$", re.IGNORECASE)


def without_credentials(text: str) -> str:
    """Return the text with `***` for the user and the password of each address in it, and for what is given with it
    under a name that suggests a secret. What cannot be told from a password is hidden, too."""
    return _GIVEN.sub(_given, _USER.sub(_user, text) if "://" in text else text)


def _user(found: re.Match[str]) -> str:
    scheme, user = found["scheme"].lower(), found["user"]
    if scheme in CONTAINERS and ":" not in user:
        return found[0]
    if found["port"] and scheme not in _STORES:  # host:port/path; another address may follow in the same word
        return f"{found['scheme']}://{without_credentials(f'{user}@')}"
    return f"{found['scheme']}://{HIDDEN}@"


def _given(found: re.Match[str]) -> str:
    secret = is_secret(found["name"]) or _SIGNATURE.search(found["name"])
    return f"{found['start']}{HIDDEN}" if secret else found[0]
