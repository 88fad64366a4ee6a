"""The web pages that may use the server, by their origins: scheme, host and port."""

from __future__ import annotations

import re
from collections.abc import Sequence

from edgespec.errors import UsageError, shortened

__all__ = ["Origins"]

SCHEME = r"[a-z][a-z0-9+.-]*"
HOST = r"[a-z0-9._-]+|\[[0-9a-f:.]+\]"  # a browser writes others in ASCII (xn--…)
PATTERN = re.compile(
    rf"(?P<scheme>{SCHEME})://(?P<host>\*(?:\.(?:{HOST}))?|{HOST}|)(?::(?P<port>\*|[0-9]+))?"
)
USUAL_PORTS = {"http": "80", "https": "443"}  # which browsers leave out
EVERY, NONE = "*", "null"


class Origins:
    """Tells which origins are allowed.

    Args:
        patterns: each an origin as browsers send it, such as "https://example.org"; a "*" stands
            for any port, host or beginning of a host; "*" alone for every origin, and "null" for
            pages that have none.

    Raises:
        UsageError: a pattern is one that no origin matches.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.expression = "|".join(f"(?:{_expression(pattern)})" for pattern in patterns)
        self._allowed = re.compile(self.expression or "(?!)")

    def __bool__(self) -> bool:
        return bool(self.expression)

    def allow(self, origin: str) -> bool:
        return self._allowed.fullmatch(origin) is not None


def _expression(pattern: str) -> str:
    """The origins that a pattern stands for, as a regular expression."""
    if pattern in (EVERY, NONE):
        return ".*" if pattern == EVERY else NONE
    parts = PATTERN.fullmatch(pattern)
    if parts is None:
        raise UsageError(
            f"--allow-origin is {shortened(pattern)}, which no browser sends; give a scheme and a "
            "host in small letters, without a path: https://example.org, http://localhost:* or *"
        )
    scheme, host, port = parts["scheme"], parts["host"], parts["port"]
    if port not in (None, EVERY) and not 1 <= int(port[:6]) <= 65535:
        raise UsageError(f"--allow-origin is {shortened(pattern)}; give a port from 1 to 65535")
    if port is not None and port == USUAL_PORTS.get(scheme):
        raise UsageError(
            f"--allow-origin is {shortened(pattern)}, but browsers leave out port {port} of "
            f"{scheme}; give {shortened(pattern.removesuffix(f':{port}'))}"
        )
    ports = "" if port is None else r"(?::\d+)?" if port == EVERY else f":{port}"
    return f"{re.escape(scheme)}://{_hosts(host)}{ports}"


def _hosts(host: str) -> str:
    if not host.startswith(EVERY):
        return re.escape(host)
    any_host = r"(?:[^/:\[\]]+|\[[0-9a-f:.]+\])"
    return f"{any_host}?" if host == EVERY else f"[^/:]+{re.escape(host.removeprefix(EVERY))}"
