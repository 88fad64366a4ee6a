"""How many tokens to draft in a round: γ."""

from __future__ import annotations

from typing import Protocol

from edgespec.errors import UsageError

__all__ = ["Adaptive", "Controller", "Fixed", "controller"]


class Controller(Protocol):
    def gamma(self) -> int:
        """How many tokens to draft next."""

    def observe(self, drafted: int, accepted: int) -> None:
        """What became of a round's draft."""


class Fixed:
    def __init__(self, gamma: int) -> None:
        self._gamma = gamma

    def gamma(self) -> int:
        return self._gamma

    def observe(self, drafted: int, accepted: int) -> None:
        pass


class Adaptive:
    """One more than a running mean of the tokens accepted: long drafts only where they last."""

    def __init__(self, start: float = 4.0, longest: int = 8, memory: float = 0.75) -> None:
        self._accepted = start
        self._longest = longest
        self._memory = memory

    def gamma(self) -> int:
        return min(self._longest, round(self._accepted) + 1)

    def observe(self, drafted: int, accepted: int) -> None:
        if drafted:
            # A draft that was accepted whole might have gone on: count one token more.
            lasted = accepted + (accepted == drafted)
            self._accepted = self._memory * self._accepted + (1 - self._memory) * lasted


def controller(gamma: int | str, longest: int) -> Controller:
    """A controller from what a user writes.

    Args:
        gamma: tokens to draft a round, or "auto".
        longest: the most that the target verifies without becoming another model.
    """
    if gamma == "auto":
        return Adaptive(longest=min(8, longest))
    if isinstance(gamma, float) or not str(gamma).isdecimal():
        raise UsageError(f"gamma is {gamma!r}; give a whole number from 0, or 'auto'")
    if int(gamma) > longest:
        raise UsageError(
            f"gamma is {gamma}; this target was found exact for at most {longest} drafted tokens"
        )
    return Fixed(int(gamma))
