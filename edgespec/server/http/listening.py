"""The address that a server listens at."""

from __future__ import annotations

import socket

from edgespec.errors import UsageError, shortened

__all__ = ["EVERYWHERE", "LOCAL", "in_url", "listening"]

EVERYWHERE = ("0.0.0.0", "::")
LOCAL = ("localhost", "127.0.0.1", "[::1]")


def in_url(host: str) -> str:
    """An address as a URL has it: with brackets if it is one of IPv6."""
    return f"[{host}]" if ":" in host else host


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens at this address.

    Raises:
        UsageError: the host is empty or not a name, or the address is in use or not one of this
            machine.
    """
    if not host:  # the operating system would listen at every address
        raise UsageError(
            "the host is empty; give an address such as 127.0.0.1, or 0.0.0.0 to listen at every "
            "address of this machine"
        )
    try:
        host.encode("idna")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (TypeError, ValueError):  # UnicodeError is a ValueError
        raise UsageError(f"the host is {shortened(host)}; give a name or an IP address") from None
    except (OSError, OverflowError) as error:
        reason, _, _ = (getattr(error, "strerror", None) or str(error)).partition(" (while ")
        where = host if len(host) <= 60 and host.isprintable() else shortened(host)
        raise UsageError(f"cannot listen at {where} port {port}: {reason}; give another") from None
