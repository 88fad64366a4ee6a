"""What one server accepts: the queue, the size of a body, the time a client may take."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits", "usual_max_body"]

BYTES_OF_A_REQUEST = 2**20  # fields, roles and JSON's own characters
BYTES_OF_A_TOKEN = 64  # a token has about 4 characters; JSON may write one as \uXXXX


@dataclass(frozen=True)
class Limits:
    """The limits of a server.

    Attributes:
        texts: that are made at once, where the pair's calls can be shared.
        queue: requests that may wait while others are answered; more are refused with 429.
        max_body: bytes of a request body; a larger one is refused with 413.
        max_sound: bytes of a request with a sound.
        timeout: seconds in which a request header has to arrive, likewise a body, and in which a
            client has to accept each part of an answer.
    """

    texts: int = 8
    queue: int = 32
    max_body: int = 2**22
    timeout: float = 30.0
    max_sound: int = 100 * 2**20


def usual_max_body(capacity: int) -> int:
    """Bytes that are enough for every prompt that fits a cache of `capacity` positions."""
    return BYTES_OF_A_REQUEST + BYTES_OF_A_TOKEN * capacity
