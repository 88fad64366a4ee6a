"""What is known of one request when it has been answered: for the log, and for /metrics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from edgespec.pair.generation import Chunk, Generation

__all__ = ["RequestRecord", "record_of"]

KEY = "edgespec.record"  # of the ASGI scope
NOT_NOW = 503  # refuses a request while the server starts or stops


@dataclass
class RequestRecord:
    """One request.

    Attributes:
        method, path: as asked.
        status: of the answer; 0 before it has begun.
        model: that it is for, once that is known.
        prompt_tokens, tokens: read, and emitted.
        drafted, accepted: tokens that the draft proposed, and those of them that were emitted.
        sound_seconds: of a sound that was transcribed.
        first_token: seconds until the first token; None before it.
        seconds: until the end.
        failed, left: the answer was cut off: by an error after it had begun, or by the server's
            end; by the client.
    """

    method: str
    path: str
    status: int = 0
    model: str | None = None
    prompt_tokens: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    sound_seconds: float = 0.0
    first_token: float | None = None
    seconds: float = 0.0
    failed: bool = False
    left: bool = False
    begun: float = field(default_factory=time.perf_counter)
    last_token: float = 0.0

    def add_chunk(self, chunk: Chunk) -> None:
        """Counts a token."""
        if chunk.token is not None:
            self.tokens += 1
            self.last_token = time.perf_counter() - self.begun
            if self.first_token is None:
                self.first_token = self.last_token

    def add_results(self, results: Iterable[Generation], n: int) -> None:
        """Counts what was read and drafted; `n` texts have one prompt."""
        for number, result in enumerate(results):
            self.prompt_tokens += 0 if number % n else result.prompt_tokens
            self.drafted += result.stats.drafted + result.stats.candidates
            self.accepted += result.stats.accepted + result.stats.committed

    def end(self) -> None:
        """Takes the time."""
        self.seconds = time.perf_counter() - self.begun

    @property
    def token_seconds(self) -> float | None:
        """Seconds for each token after the first."""
        if self.first_token is None or self.tokens < 2:
            return None
        return (self.last_token - self.first_token) / (self.tokens - 1)

    @property
    def outcome(self) -> str:
        """ "answered", "refused", "failed", or "left" by the client."""
        if self.left or self.status == 499:
            return "left"
        if self.failed or self.status == 0 or (self.status >= 500 and self.status != NOT_NOW):
            return "failed"
        return "refused" if self.status >= 400 else "answered"

    def fields(self) -> dict[str, object]:
        """Names and values for a log that programs read; what there is none of is left out."""
        rate = 1 / self.token_seconds if self.token_seconds else None
        values = {
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "outcome": self.outcome,
            "model": self.model,
            "prompt_tokens": self.prompt_tokens or None,
            "tokens": self.tokens or None,
            "first_token_s": None if self.first_token is None else round(self.first_token, 4),
            "tokens_per_s": None if rate is None else round(rate, 1),
            "drafted": self.drafted or None,
            "accepted": self.accepted if self.drafted else None,
            "sound_s": round(self.sound_seconds, 2) or None,
            "seconds": round(self.seconds, 4),
        }
        return {name: value for name, value in values.items() if value is not None}

    def __str__(self) -> str:
        parts = []
        if self.tokens:
            parts.append(f"{self.tokens} tokens after {self.prompt_tokens}")
        if self.sound_seconds:
            parts.append(f"{self.sound_seconds:.1f} s of sound")
        if self.first_token is not None:
            parts.append(f"first {self.first_token:.3f} s")
        if self.token_seconds:
            parts.append(f"{1 / self.token_seconds:.1f} tokens/s")
        if self.drafted:
            parts.append(f"accepted {self.accepted} of {self.drafted}")
        if self.outcome in ("failed", "left"):
            parts.append(self.outcome)
        parts.append(f"{self.seconds:.3f} s")
        model = "" if self.model is None else f" {self.model}:"
        return f"{self.method} {self.path} {self.status}{model} {', '.join(parts)}"


def record_of(scope: Mapping[str, Any]) -> RequestRecord:
    """The record of the request with this ASGI scope."""
    return cast(RequestRecord, scope[KEY])
