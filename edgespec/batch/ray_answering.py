"""Answers lines on a cluster of Ray, as `edgespec.batch.answering` does here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

from edgespec.batch.answering import AnsweringOptions, refusal
from edgespec.batch.ray_cluster import ActorPool, last_line
from edgespec.batch.ray_stage import RayAnswers
from edgespec.batch.request_line import RefusedLine, RequestLine
from edgespec.errors import EdgespecError
from edgespec.openai.json_value import JsonObject
from edgespec.pair.opening.loading import LoadOptions

__all__ = ["answers_on_ray"]

PART = 65_536  # lines that are in memory at once
ROUNDS = 8  # texts of a batch, for each at once: few wait for the last of a batch


def answers_on_ray(
    lines: Iterable[RequestLine | RefusedLine],
    pool: ActorPool,
    folder: Path,
    sha256: str,
    loading: LoadOptions,
    options: AnsweringOptions,
) -> Iterator[JsonObject]:
    """A line of the results for each line, in the order in which batches of them end. A batch whose
    actor died is answered by another.

    Args:
        pool: the actors.
        folder, sha256: the pair and its manifest's digest, the same on every node.
        loading: keyword arguments of `edgespec.load`.

    Raises:
        EdgespecError: an actor cannot answer, whatever the line.
    """
    stage = {
        "folder": str(folder),
        "texts": options.texts,
        "shares": pool.shares,
        "model": options.model,
        "loading": loading,
        "instead": options.instead,
        "drafting": options.drafting,
        "strict": options.strict,
        "sha256": sha256,
    }
    waiting = iter(lines)
    while part := list(islice(waiting, PART)):
        requests = []
        texts = 0
        for line in part:
            if isinstance(line, RefusedLine):
                yield refusal(line)
            else:
                requests.append({"number": line.number, "request": line.text.strip()})
                texts += line.texts
        if requests:
            yield from _answers(requests, pool, stage, -(-texts // (ROUNDS * options.texts)))


def _answers(
    requests: Sequence[Mapping[str, Any]],
    pool: ActorPool,
    stage: dict[str, Any],
    batches: int,
) -> Iterator[JsonObject]:
    """Answers in so many batches, and at least one for each actor."""
    import ray
    import ray.data
    import ray.exceptions

    batches = min(len(requests), max(pool.size, batches))
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.max_consecutive_actor_init_deaths = 0  # what fails once fails again
    answers = ray.data.from_items(list(requests), override_num_blocks=batches).map_batches(
        RayAnswers,
        fn_constructor_kwargs=stage,
        batch_size=None,
        compute=ray.data.ActorPoolStrategy(size=min(pool.size, batches)),
        num_cpus=pool.cpus,
    )
    try:
        for table in answers.iter_batches(
            batch_size=None, batch_format="pyarrow", prefetch_batches=0
        ):
            yield from map(json.loads, cast(Any, table)["answer"].to_pylist())
    except (ray.exceptions.RayError, RuntimeError) as error:
        raise EdgespecError(
            f"Ray cannot go on: {last_line(error)}; answers so far are kept"
        ) from None
