"""What a failed storage operation means: may it work in a moment, and what to tell the user in one line."""

from __future__ import annotations

import errno
import re

_TRANSIENT_ERRNOS = {
    *(errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.ENOTEMPTY),
    *(errno.ESTALE, errno.ETIMEDOUT, errno.ECONNRESET),
}
_TRANSIENT_TEXT = re.compile(
    r"AWS Error (NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|REQUEST_TIMEOUT|THROTTLING|UNKNOWN)"
    r"|HTTP status 5\d\d|timed? ?out|curlCode|UNAVAILABLE|DEADLINE",
    re.IGNORECASE,
)
_DENIED = "permission denied"
_CAUSES = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.EROFS: "the file system is read-only",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
}


def is_transient(error: Exception) -> bool:
    """May the same operation work in a moment?"""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _TRANSIENT_ERRNOS
    return _TRANSIENT_TEXT.search(str(error)) is not None


def is_missing(error: Exception) -> bool:
    """Does it say that there is no such file?"""
    return isinstance(error, FileNotFoundError) or "NO_SUCH_KEY" in str(error)


def cause(error: Exception) -> str:
    """One line for people."""
    number = error.errno if isinstance(error, OSError) else None
    if number in _CAUSES:
        return _CAUSES[number]
    if "ACCESS_DENIED" in str(error):
        return _DENIED
    return " ".join(str(error).split())[:300] or type(error).__name__
