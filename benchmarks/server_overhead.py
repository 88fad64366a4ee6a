"""The server's own time for a request: python benchmarks/server_overhead.py [REQUESTS]

A random model of two layers, whose texts of one token cost nearly nothing: the time of a request
over a kept connection, less the time of the same text without a server. Medians, and the load of
the machine, which says what they are worth; beside them the processor's time of a request, which
the load changes little. It has the client in it.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "export"), str(ROOT / "runtimes"), str(ROOT / "tests")]

import edgespec  # noqa: E402
from checkpoints import write_small_llama  # noqa: E402
from edgespec.server.app import application  # noqa: E402
from edgespec.server.http.http_server import serve  # noqa: E402
from edgespec.server.http.listening import listening  # noqa: E402
from edgespec_export.export_pair import export_pair  # noqa: E402

WARM = 10  # calls that are not counted
BODY = {"prompt": "hello", "max_tokens": 1, "temperature": 0}


def main(requests: int) -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as folder:
        target = write_small_llama(Path(folder) / "target", max_position_embeddings=96)
        export_pair(str(target), None, Path(folder) / "pair", threads=1)
        pair = edgespec.load(Path(folder) / "pair", threads=1)
        alone = timed(requests, lambda: pair.generate("hello", max_new_tokens=1, draft=False))
        at = listening("127.0.0.1", 0)
        arguments = (application({"small": pair}, {"draft": False}), at)
        threading.Thread(target=serve, args=arguments, daemon=True).start()
        connection = http.client.HTTPConnection("127.0.0.1", at.getsockname()[1])

        def asked() -> None:
            headers = {"content-type": "application/json"}
            connection.request("POST", "/v1/completions", json.dumps(BODY), headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()

        begun = time.process_time()
        served = timed(requests, asked)
        processor = (time.process_time() - begun) / (requests + WARM)
    print(f"{requests} requests; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"a text of one token alone   {alone * 1000:.2f} ms")
    print(f"the same from the server    {served * 1000:.2f} ms")
    print(f"the server's part           {(served - alone) * 1000:.2f} ms")
    print(f"the processor's time        {processor * 1000:.2f} ms a request, client and text in it")


def timed(count: int, work: object) -> float:
    """The median time of a call, in seconds, after some that are not counted."""
    assert callable(work)
    times = []
    for number in range(count + WARM):
        begun = time.perf_counter()
        work()
        if number >= WARM:
            times.append(time.perf_counter() - begun)
    return statistics.median(times)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
