"""What rounds cost on this machine, learned from the clock while a pair generates."""

from __future__ import annotations

from edgespec.costs import Costs

__all__ = ["RoundTimes"]

LEAST_EXCESS = 0.01  # plain steps: no drafted round is believed to be cheaper than a plain one


class RoundTimes:
    """Seconds of rounds by γ; costs of rounds that were not timed follow from a guess.

    One is kept for as long as a pair is loaded, so only its first texts begin with the guess.

    Args:
        guess: of the costs: from a profile, or estimated.
    """

    WEIGHT = 0.25  # of the newest round
    OUTLIER = 1.5  # a round that took longer than this times the mean counts as that

    def __init__(self, guess: Costs) -> None:
        self._guess = guess
        self._seconds: dict[int, float] = {}
        self._count: dict[int, int] = {}

    def add(self, gamma: int, seconds: float) -> None:
        """A round with γ drafted tokens took this long."""
        known = self._seconds.get(gamma)
        count = self._count.get(gamma, 0)
        if known is None or (count == 1 and seconds < known):  # the first one also allocates
            self._seconds[gamma] = seconds
        else:
            self._seconds[gamma] += self.WEIGHT * (min(seconds, self.OUTLIER * known) - known)
        self._count[gamma] = count + 1

    def count(self, gamma: int) -> int:
        """How many rounds with γ drafted tokens were timed."""
        return self._count.get(gamma, 0)

    @property
    def longest(self) -> int:
        """The largest γ that was timed."""
        return max(self._seconds, default=0)

    def costs(self) -> Costs:
        """In plain steps, as the clock has them; the guess until a plain step was timed.

        What a γ that was not timed costs above a plain step is what the guess says, times how
        wrong that is at the nearest γ that was.
        """
        plain = self._seconds.get(0)
        drafted = [gamma for gamma in self._seconds if gamma]
        if plain is None or not drafted:
            return self._guess
        rounds = [1.0]
        for gamma in range(1, self._guess.longest + 1):
            nearest = min(drafted, key=lambda timed: abs(timed - gamma))
            seen = max(self._seconds[nearest] / plain - 1, LEAST_EXCESS)
            guessed = max(self._guess.round(nearest) - 1, LEAST_EXCESS)
            rounds.append(1 + seen * max(self._guess.round(gamma) - 1, LEAST_EXCESS) / guessed)
        return Costs(rounds, draft=0.0)
