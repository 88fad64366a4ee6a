"""Every substring of a text that grows token by token, with what followed it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgespec.drafters.matcher import Continuation

__all__ = ["Follower", "SuffixAutomaton"]

COUNTED = 32  # substrings whose counts one token changes, the longest first
WIDEST = 32  # different tokens after a substring that says something about the next
READ = 64  # tokens that a follower reads at once, at most; a longer match says no more


class SuffixAutomaton:
    """The smallest automaton that accepts the substrings of a text (Blumer et al. 1985).

    A state stands for substrings that end at the same indices. The link of the whole text's state
    leads to its longest suffix that occurred before, and each further link to shorter ones.
    A token takes O(1), amortized, and about 0.5 kB. It changes the counts of the 32 longest
    substrings that end with it: without this limit, a text that repeats one token would take O(n)
    a token.

    It is the `Matcher` of a text in itself; `Follower` matches another text.

    Args:
        most: tokens that it holds; when there are more, it forgets the older half.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._clear()

    def _clear(self) -> None:
        self.tokens: list[int] = []
        self._lengths = [0]  # of each state's longest substring; state 0 is the empty one
        self._links = [-1]
        self._next: list[dict[int, int]] = [{}]
        self._counts = [0]
        self._latest = [0]  # where each state's substrings ended last
        self._last = 0  # the state of the whole text

    def read(self, tokens: Sequence[int]) -> None:
        """Appends tokens; a negative one ends a text, and is never proposed."""
        for token in tokens[-self._most :]:
            if len(self.tokens) == self._most:
                kept = self.tokens[(self._most + 1) // 2 :]
                self._clear()
                for old in kept:
                    self._append(old)
            self._append(token)

    def _append(self, token: int) -> None:
        follow, links = self._next, self._links
        self.tokens.append(token)
        new = self._add(self._lengths[self._last] + 1, {}, 0)
        state, self._last = self._last, new
        while state >= 0 and token not in follow[state]:
            follow[state][token] = new
            state = links[state]
        if state >= 0:
            links[new] = self._state_of(state, token)
        self._count(new)

    def _add(self, length: int, follow: dict[int, int], link: int, like: int = 0) -> int:
        """A new state, with the counts of the state `like`."""
        self._lengths.append(length)
        self._next.append(follow)
        self._links.append(link)
        self._counts.append(self._counts[like])
        self._latest.append(self._latest[like])
        return len(self._lengths) - 1

    def _state_of(self, state: int, token: int) -> int:
        """The state whose longest substring is that of `state` and the token: the one that follows,
        or a part of it that gets a state of its own."""
        follow, links, length = self._next, self._links, self._lengths[state] + 1
        known = follow[state][token]
        if self._lengths[known] == length:
            return known
        clone = self._add(length, follow[known].copy(), links[known], known)
        links[known] = clone
        while state >= 0 and follow[state].get(token) == known:
            follow[state][token] = clone
            state = links[state]
        return clone

    def _count(self, state: int) -> None:
        """Counts an occurrence of what ends with the last token."""
        end = len(self.tokens)
        for _ in range(COUNTED):
            if state <= 0:
                return
            self._counts[state] += 1
            self._latest[state] = end
            state = self._links[state]

    def suffixes(self) -> Iterator[tuple[int, int]]:
        """Length and state of the text's suffixes that occurred before, the longest first."""
        state = self._links[self._last]
        return self.shorter(self._lengths[state], state)

    def shorter(self, length: int, state: int) -> Iterator[tuple[int, int]]:
        """A match of that length, and its suffixes that occur elsewhere, the longest first."""
        while state > 0:
            yield length, state
            state = self._links[state]
            length = self._lengths[state]

    def match(self, length: int, state: int, token: int) -> tuple[int, int]:
        """The longest suffix of another text's match of that length, and of a token after it, that
        occurs here: length and state."""
        while state > 0 and token not in self._next[state]:
            state = self._links[state]
            length = self._lengths[state]
        found = self._next[state].get(token)
        return (0, 0) if found is None else (length + 1, found)

    def best(self, state: int) -> Continuation | None:
        """The most frequent token after a state's substrings; of equal ones, the latest."""
        follow = self._next[state]
        if len(follow) > WIDEST:
            return None
        counts, latest = self._counts, self._latest
        total, best, chosen = 0, -1, 0
        for token, child in follow.items():
            count = counts[child]
            total += count
            if token >= 0 and (count, latest[child]) > (counts[chosen], latest[chosen]):
                best, chosen = token, child
        return Continuation(best, counts[chosen], total, chosen) if best >= 0 else None


class Follower:
    """Finds the suffixes of a growing text in an automaton, which must not grow meanwhile."""

    def __init__(self, automaton: SuffixAutomaton) -> None:
        self._automaton = automaton
        self._match = 0, 0
        self.best = automaton.best

    def read(self, tokens: Sequence[int]) -> None:
        for token in tokens[-READ:]:
            self._match = self._automaton.match(*self._match, token)

    def suffixes(self) -> Iterator[tuple[int, int]]:
        return self._automaton.shorter(*self._match)
