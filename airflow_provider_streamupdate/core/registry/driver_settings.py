"""The settings of a driver itself, in its environment (``--env NAME=VALUE``, the connection's ``env_vars``)."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ..errors import InvalidInputError

LOG_BYTES, LOG_FILES = "STREAMUPDATE_LOG_BYTES", "STREAMUPDATE_LOG_FILES"
PATIENCE = "STREAMUPDATE_STORAGE_PATIENCE"


@attrs.frozen(kw_only=True)
class DriverSettings:
    """The settings of a driver itself."""

    log_bytes: int = 10_000_000  # the size at which its log is rotated
    log_files: int = 5  # how many rotated logs are kept
    patience: int = 600  # how many seconds the root's storage may fail before the driver ends because of it

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> DriverSettings:
        """Read the settings; InvalidInputError when one is not a whole number or is too small."""
        return cls(
            log_bytes=_number(environment, LOG_BYTES, cls().log_bytes, 1),
            log_files=_number(environment, LOG_FILES, cls().log_files, 0),
            patience=_number(environment, PATIENCE, cls().patience, 0),
        )


def _number(environment: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = environment.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or int(text) < least:
        raise InvalidInputError(f"{name}={text!r} in the driver's environment is not a whole number of {least} or more")
    return int(text)
