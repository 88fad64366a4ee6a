"""What the server says to Prometheus, at /metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from edgespec.server.served_model import ServedModel

__all__ = ["METRICS_TYPE", "metrics"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LABELS = ("model",)


def metrics(models: Sequence[ServedModel], requests: CollectorRegistry) -> bytes:
    """The counts of all models as they are now, and those of requests that have ended."""
    registry = CollectorRegistry()
    registry.register(_Counts(models))
    return generate_latest(registry) + generate_latest(requests)


class _Counts:
    """A collector of `prometheus_client`."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self._models = models

    def collect(self) -> Iterator[Metric]:
        def gauge(name: str, words: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"edgespec_{name}", words, labels=LABELS)

        def counter(name: str, words: str) -> CounterMetricFamily:
            return CounterMetricFamily(f"edgespec_{name}", words, labels=LABELS)

        running = gauge("texts_running", "Texts being made.")
        waiting = gauge("texts_waiting", "Texts in the queue.")
        at_once = gauge("texts_at_once", "Texts that can be made at once.")
        started = counter("texts", "Texts begun.")
        tokens = counter("tokens", "Tokens emitted.")
        calls = counter("target_calls", "Calls of the target.")
        rows = counter("target_rows", "Rows in these calls.")
        seconds = counter("target_seconds", "Seconds in these calls.")
        for model in self._models:
            name, batch, target = (model.name,), model.batch, model.batch.batch.target
            running.add_metric(name, batch.running)
            waiting.add_metric(name, batch.waiting)
            at_once.add_metric(name, batch.batch.capacity)
            started.add_metric(name, batch.started)
            tokens.add_metric(name, batch.tokens)
            if target is not None:
                calls.add_metric(name, target.calls)
                rows.add_metric(name, target.rows)
                seconds.add_metric(name, target.seconds)
        yield from (running, waiting, at_once, started, tokens, calls, rows, seconds)
