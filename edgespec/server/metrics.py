"""What the server says to Prometheus, at /metrics."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from edgespec.server.text_pool import TextPool

__all__ = ["METRICS_TYPE", "metrics"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics(pool: TextPool) -> bytes:
    """The counts of a pool as they are now."""
    registry = CollectorRegistry()
    registry.register(_Counts(pool))
    return generate_latest(registry)


class _Counts:
    """A collector of `prometheus_client`."""

    def __init__(self, pool: TextPool) -> None:
        self._pool = pool

    def collect(self) -> Iterator[Metric]:
        counts, target = self._pool.counts, self._pool.many.target
        yield GaugeMetricFamily(
            "edgespec_requests_running", "Requests being answered.", counts.running
        )
        yield GaugeMetricFamily(
            "edgespec_requests_waiting", "Requests in the queue.", counts.waiting
        )
        yield GaugeMetricFamily(
            "edgespec_texts_at_once", "Texts that can be made at once.", self._pool.many.capacity
        )
        yield CounterMetricFamily("edgespec_texts", "Texts begun.", counts.answered)
        yield CounterMetricFamily("edgespec_tokens", "Tokens emitted.", counts.tokens)
        if target is not None:
            yield CounterMetricFamily("edgespec_target_calls", "Calls of the target.", target.calls)
            yield CounterMetricFamily("edgespec_target_rows", "Rows in these calls.", target.rows)
            yield CounterMetricFamily(
                "edgespec_target_seconds", "Seconds in these calls.", target.seconds
            )
