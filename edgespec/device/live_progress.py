"""How far a step is, many times a second: records of a level that only terminals ask for."""

from __future__ import annotations

import logging

__all__ = ["LIVE", "say_live"]

LIVE = logging.DEBUG - 5  # no log of a server has them


def say_live(line: str) -> bool:
    """Shows a line where the last one of this kind was; an empty one takes it away.

    Returns:
        Whether somebody looks.
    """
    logger = logging.getLogger("edgespec")
    logger.log(LIVE, "%s", line)
    return logger.isEnabledFor(LIVE)
