"""A server for an hour, as its users are: every interface, clients that leave, and restarts.

    python benchmarks/serve_mixed.py build/smollm2 --minutes 60 --json serve_mixed.json

`edgespec serve` runs in a process of its own. Clients ask all the time, at all interfaces that make
texts, streamed and whole; some leave in the middle. Every few minutes the server gets SIGTERM while
they wait, has its time of grace, and is started again at the same port, where they go on as soon as
it is ready. A request that the stopping server did not take is asked again: it is turned away, not
lost. It fails if an answer breaks off, if the same request ever gets another text, at whichever
interface, before or after a restart, if the server's log knows of a failed request, if it does not
end with 0 within its grace, or if its memory grows between two restarts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from record import begin, write_result
from same_texts import prompts_for
from serve_load import RequestError, lines_of
from serve_mixed_interfaces import INTERFACES, Interface

LEAVING = 0.2  # share of requests
GROWTH = 1.03  # of memory from the first half of a life to its second, at most
WARM = 300  # answers of a life before its memory counts: caches fill
LATE = 5.0  # seconds after the grace in which the process has to be gone
SAMPLED = {"temperature": 0.8, "top_p": 0.9, "seed": 7}


class TurnedAwayError(Exception):
    """The server did not take the request."""


@dataclass
class Life:
    """One process of the server.

    Attributes:
        is_ready: its pairs are loaded.
        requests: that it answered.
        memory: (answers so far, resident MB), every two seconds.
        ended: seconds from SIGTERM to its end, and its exit code.
    """

    process: subprocess.Popen[bytes]
    is_ready: bool = False
    requests: int = 0
    memory: list[tuple[int, float]] = field(default_factory=list)
    running_at_sigterm: int = 0
    ended: tuple[float, int] | None = None

    def growth(self) -> float | None:
        """Median memory of the second half over that of the first; None for a short life."""
        values = [megabytes for requests, megabytes in self.memory if requests > WARM]
        half = len(values) // 2
        return median(values[half:]) / median(values[:half]) if half >= 5 else None


@dataclass
class Mixed:
    """The load, and what came of it.

    Attributes:
        done: requests by interface, streamed or whole, and what became of them.
        errors: what must not be.
        texts: by request, what the first answer was.
        running: requests that wait for an answer or read it.
        usual: seconds of a request that is read to its end, as of late.
    """

    pair: Path
    options: argparse.Namespace
    log: Path
    prompts: Sequence[str]
    port: int = 0
    done: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    lives: list[Life] = field(default_factory=list)
    running: int = 0
    usual: float = 1.0

    async def start(self) -> None:
        """Starts the server, and waits until it is ready."""
        command = [sys.executable, "-m", "edgespec", "serve", str(self.pair)]
        command += ["--port", str(self.port), "--texts", str(self.options.clients)]
        command += ["--threads", str(self.options.threads), "--grace", str(self.options.grace)]
        command += ["--log-format", "json", "--log-file", str(self.log)]
        life = Life(subprocess.Popen(command))
        self.lives.append(life)
        while await self.status("/ready") != 200:
            if life.process.poll() is not None:
                raise RequestError(f"the server ended with {life.process.returncode}")
            await asyncio.sleep(0.2)
        life.is_ready = True

    async def status(self, path: str) -> int:
        """Of a GET; 0 where nobody listens."""
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        try:
            async with aclosing(lines_of(self.port, request.encode())) as lines:
                return int((await anext(lines)).split()[1])
        except (OSError, StopAsyncIteration):
            return 0

    async def client(self, number: int) -> None:
        """Asks for one text after the other."""
        choose = random.Random(number)
        while True:
            if self.options.pause:
                await asyncio.sleep(choose.expovariate(1 / self.options.pause))
            interface = choose.choice(INTERFACES)
            streams, leaves = choose.random() < 0.5, choose.random() < LEAVING
            length = choose.choice([self.options.tokens // 4, self.options.tokens])
            sampled = interface.seeds and choose.random() < 0.3
            fields = {"max_tokens": length, **(SAMPLED if sampled else {"temperature": 0})}
            prompt = choose.choice(self.prompts)
            body = interface.body(prompt, fields, streams)
            until = choose.random() * self.usual if leaves else None
            key = json.dumps([interface.family(sampled), prompt, fields])
            kind = f"{interface.path}, {'streamed' if streams else 'whole'}"
            await self.until_taken(interface, body, kind, key, until)

    async def until_taken(
        self,
        interface: Interface,
        body: Mapping[str, Any],
        kind: str,
        key: str,
        until: float | None,
    ) -> None:
        """Asks as often as the server that restarts does not take the request.

        Args:
            until: seconds after which the client leaves; None for one that reads all.
        """
        while True:
            began = time.perf_counter()
            try:
                async with asyncio.timeout(until):
                    text = await self.ask(interface, body)
            except TimeoutError:
                self.done[f"{kind}, left"] += 1
            except TurnedAwayError:
                self.done["turned away"] += 1
                await asyncio.sleep(0.5)
                continue
            except (RequestError, OSError, ValueError, LookupError) as error:
                self.errors.append(f"{kind}: {type(error).__name__} {error}"[:300])
            else:
                self.done[kind] += 1
                self.usual += 0.1 * (time.perf_counter() - began - self.usual)
                if self.texts.setdefault(key, text) != text:
                    self.errors.append(f"{kind}: another text for {key}: {text!r}"[:600])
            return

    async def ask(self, interface: Interface, body: Mapping[str, Any]) -> str:
        """The text of a whole answer.

        Raises:
            TurnedAwayError: the server did not take the request.
            RequestError: there is no whole answer.
        """
        content = json.dumps(body).encode()
        header = (
            f"POST {interface.path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        lines: list[bytes] = []
        self.running += 1
        try:
            async with aclosing(lines_of(self.port, header.encode() + content)) as answer:
                lines.extend([line async for line in answer])
        except OSError as error:
            raise TurnedAwayError from error
        finally:
            self.running -= 1
        if not lines or b" 503 " in lines[0]:
            raise TurnedAwayError
        self.lives[-1].requests += 1
        if b" 200 " not in lines[0]:
            raise RequestError(b"".join(lines).decode())
        return interface.text(lines, bool(body.get("stream")))

    async def watch(self) -> None:
        """Notes the server's memory."""
        while True:
            life = self.lives[-1]
            while life.is_ready and life.ended is None:
                if (resident := megabytes(life.process.pid)) is not None:
                    life.memory.append((life.requests, resident))
                await asyncio.sleep(2)
            await asyncio.sleep(0.2)

    async def end(self) -> None:
        """SIGTERM, and the end of the process."""
        life, began = self.lives[-1], time.perf_counter()
        life.running_at_sigterm = self.running
        life.process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(life.process.wait)
        life.ended = (time.perf_counter() - began, code)
        if code or life.ended[0] > self.options.grace + LATE:
            self.errors.append(f"SIGTERM: exit code {code} after {life.ended[0]:.1f} s")

    async def run(self) -> None:
        """The whole load."""
        await self.start()
        until = time.perf_counter() + self.options.minutes * 60
        tasks = [asyncio.create_task(self.client(i)) for i in range(self.options.clients)]
        tasks.append(asyncio.create_task(self.watch()))
        while (left := until - time.perf_counter()) > 0:
            pause = min(left, self.options.every * 60)
            ended, _ = await asyncio.wait(tasks, timeout=pause, return_when=asyncio.FIRST_EXCEPTION)
            for task in ended:
                task.result()
            await self.end()
            if time.perf_counter() < until:
                await self.start()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def outcomes(self) -> Counter[str]:
        """What the server's log says of the texts that it was asked for."""
        records = [json.loads(line) for line in self.log.read_text().splitlines()]
        return Counter(record["outcome"] for record in records if record.get("method") == "POST")


def megabytes(process: int) -> float | None:
    """Resident memory; None for a process that has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return None
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024 if "VmRSS:" in status else None


def free_port() -> int:
    """A port at which nobody listens."""
    from edgespec.server.http.listening import listening

    with listening("127.0.0.1", 0) as at:
        return int(at.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pair", type=Path)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=4, help="minutes between restarts")
    parser.add_argument("--grace", type=float, default=60, help="seconds after SIGTERM")
    parser.add_argument("--tokens", type=int, default=64, help="of a text, at most")
    parser.add_argument(
        "--pause", type=float, default=0, help="mean seconds before each request of a client"
    )
    options, record = begin(parser)
    with tempfile.TemporaryDirectory() as folder:
        prompts = prompts_for(options.pair)[:12]
        load = Mixed(options.pair, options, Path(folder) / "log", prompts, free_port())
        try:
            asyncio.run(load.run())
        finally:
            load.lives[-1].process.kill()
        outcomes = load.outcomes()
    growths = [growth for life in load.lives if (growth := life.growth()) is not None]
    ends = [life.ended for life in load.lives if life.ended is not None]
    row = {
        "requests": dict(load.done),
        "outcomes in the server's log": dict(outcomes),
        "errors": load.errors,
        "different requests that were compared": len(load.texts),
        "running at SIGTERM": [life.running_at_sigterm for life in load.lives],
        "seconds from SIGTERM to the end": [seconds for seconds, _ in ends],
        "requests of each life": [life.requests for life in load.lives],
        "growth of memory in each life": growths,
        "most MB": [max(mb for _, mb in life.memory) for life in load.lives if life.memory],
    }
    for name, value in row.items():
        print(f"{name}: {value}")
    write_result(options, record, row=row)
    if load.errors or outcomes["failed"] or any(growth > GROWTH for growth in growths):
        sys.exit("failed")


if __name__ == "__main__":
    main()
