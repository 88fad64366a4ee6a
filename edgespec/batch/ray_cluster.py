"""A cluster of Ray: reached within a time limit, and the actors that fit it."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edgespec.batch.cores import Shares, sockets_here
from edgespec.batch.ray_stage import check_same_pair
from edgespec.errors import EdgespecError, UsageError, needs_extra, shortened

__all__ = ["ActorPool", "Actors", "find_pool", "last_line", "ray_cluster"]

Actors = Literal["node", "socket"] | int  # one for each, or so many
LOCAL, AUTO = "local", "auto"
CONNECT_S = 5  # until something answers at the address
ANSWER_S = 20  # until that says that it is Ray
LOOK_S = 120  # until each node has looked at its folder; a process has to start there


@contextmanager
def ray_cluster(address: str) -> Iterator[None]:
    """Connects to a cluster, or starts one on this machine for the time of the block.

    Args:
        address: "local" starts one; "auto" takes the one that runs on this machine; HOST:PORT.

    Raises:
        UsageError: it is no address.
        EdgespecError: Ray is not installed, or there is no cluster at the address.
    """
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # warnings of C++, on stderr
    if address == LOCAL:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to Ray's makers
    with needs_extra("ray"):
        import ray
        import ray.data
        import ray.exceptions

    if address not in (LOCAL, AUTO):
        _check_reachable(address)
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # its errors are raised, too
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise EdgespecError(f"no use of Ray at {shortened(address)}: {last_line(error)}") from None
    try:
        yield
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ray itself waits for minutes, and cannot be told to wait less."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in address:
        raise UsageError(
            f"the address of Ray is {shortened(address)}; give local, auto or HOST:PORT of a "
            "cluster that this machine is a node of"
        )
    where = shortened(address)
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise EdgespecError(
            f"nothing answers at Ray's address {where} ({error}); see `ray status` there"
        ) from None
    status = [sys.executable, "-m", "ray.scripts.scripts", "status", "--address", address]
    try:
        subprocess.run(status, capture_output=True, check=True, timeout=ANSWER_S)
    except subprocess.SubprocessError:
        raise EdgespecError(
            f"what answers at {where} was no Ray of this version within {ANSWER_S} s; give the "
            "port that `ray start --head` prints"
        ) from None


@dataclass(frozen=True)
class ActorPool:
    """The actors.

    Attributes:
        size: how many there are; Ray spreads them over the nodes.
        cpus: of a node, as Ray counts them, that each takes.
        shares: of a node's cores; each takes one.
    """

    size: int
    cpus: float
    shares: Shares


def find_pool(folder: Path, sha256: str, actors: Actors) -> ActorPool:
    """The actors for this cluster, after each node has looked whether it has the pair.

    Args:
        folder: of the pair, the same on every node.
        sha256: of its manifest.

    Raises:
        EdgespecError: a node lacks the pair or edgespec, or does not answer.
    """
    import ray

    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    if not nodes:
        raise EdgespecError("no node of the Ray cluster has CPUs; add one with `ray start`")
    sockets = _look(nodes, folder, sha256)
    cpus = [node["Resources"]["CPU"] for node in nodes]
    if actors == "socket":
        shares = zip(cpus, sockets, strict=True)
        return ActorPool(sum(sockets), min(has / count for has, count in shares), "socket")
    size = len(nodes) if actors == "node" else actors
    each = -(-size // len(nodes))  # actors of a node
    return ActorPool(size, min(cpus) / each, each)


def _look(nodes: Sequence[Mapping[str, Any]], folder: Path, sha256: str) -> list[int]:
    """How many sockets each node has."""
    import ray
    import ray.exceptions
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    look = ray.remote(num_cpus=0, max_retries=0)(_sockets_with_pair)
    asked = []
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        asked.append(look.options(scheduling_strategy=there).remote(folder, sha256))
    found = []
    for node, answer in zip(nodes, asked, strict=True):
        where = f"node {node['NodeManagerAddress']} of Ray"
        try:
            result = ray.get(answer, timeout=LOOK_S)
        except ray.exceptions.GetTimeoutError:
            raise EdgespecError(f"{where} did not answer within {LOOK_S} s") from None
        except ray.exceptions.RayError as error:
            raise EdgespecError(f"{where}: {last_line(error)}") from None
        if isinstance(result, str):
            raise EdgespecError(f"{where}: {result}")
        found.append(result)
    return found


def _sockets_with_pair(folder: Path, sha256: str) -> int | str:
    """Runs on a node: the number of its sockets, or what is wrong with its pair."""
    try:
        check_same_pair(folder, sha256)
    except EdgespecError as error:
        return str(error)
    return len(sockets_here())


def last_line(error: BaseException) -> str:
    """Errors that come from another machine carry its traceback; this is what it ends with."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1].strip()
