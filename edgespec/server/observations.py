"""What /metrics counts of requests: how they ended, and how long they took."""

from __future__ import annotations

from collections.abc import Collection

from prometheus_client import CollectorRegistry, Counter, Histogram

from edgespec.server.request_record import RequestRecord

__all__ = ["Observations"]

# Seconds: from one token of a small model to a long text of a large one.
TOKENS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
FIRST = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
WHOLE = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

OF_MODEL = ("model",)  # labels


class Observations:
    """Counters and histograms of one application.

    Args:
        routes: paths that are told apart; there are any number of others.

    Attributes:
        registry: holds them.
    """

    def __init__(self, routes: Collection[str]) -> None:
        self._routes = routes
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "edgespec_requests",
            "Requests that have ended, by how: answered, refused, failed, left by the client.",
            ("route", "status", "outcome"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "edgespec_request_seconds",
            "Seconds from a request's header to the end of its answer.",
            ("route",),
            buckets=WHOLE,
            registry=self.registry,
        )
        self._first = Histogram(
            "edgespec_first_token_seconds",
            "Seconds from a request's header to its first token.",
            OF_MODEL,
            registry=self.registry,
            buckets=FIRST,
        )
        self._token = Histogram(
            "edgespec_token_seconds",
            "Mean seconds for each token of a request after its first.",
            OF_MODEL,
            registry=self.registry,
            buckets=TOKENS,
        )
        self._read = Counter(
            "edgespec_prompt_tokens", "Tokens of prompts.", OF_MODEL, registry=self.registry
        )
        self._sound = Counter(
            "edgespec_sound_seconds",
            "Seconds of sound transcribed.",
            OF_MODEL,
            registry=self.registry,
        )
        self._drafted = Counter(
            "edgespec_drafted_tokens",
            "Tokens that a draft proposed.",
            OF_MODEL,
            registry=self.registry,
        )
        self._accepted = Counter(
            "edgespec_accepted_tokens",
            "Drafted tokens that became part of a text.",
            OF_MODEL,
            registry=self.registry,
        )

    def add(self, record: RequestRecord) -> None:
        """Counts a request that has ended."""
        route = record.path if record.path in self._routes else "other"
        self._requests.labels(route, str(record.status), record.outcome).inc()
        self._seconds.labels(route).observe(record.seconds)
        if record.model is None:
            return
        if record.first_token is not None:
            self._first.labels(record.model).observe(record.first_token)
        if record.token_seconds is not None:
            self._token.labels(record.model).observe(record.token_seconds)
        self._read.labels(record.model).inc(record.prompt_tokens)
        self._sound.labels(record.model).inc(record.sound_seconds)
        self._drafted.labels(record.model).inc(record.drafted)
        self._accepted.labels(record.model).inc(record.accepted)
