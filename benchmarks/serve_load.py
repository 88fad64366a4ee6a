"""A server under load for minutes: many streams, clients that leave, and clients that read slowly.

    python benchmarks/serve_load.py build/smollm2 --minutes 10 --json serve_load.json

`edgespec serve` runs in a process of its own. So many streams ask for texts all the time, greedy,
sampled, with penalties and as JSON; some leave in the middle, some read slowly through a
small socket buffer. Every few seconds a newcomer measures the time to its first token, for which
there is a free cache, and before the load the same is measured alone. It fails if a request fails,
if the same request ever gets another text, if a cache is not free at the end, or if memory grows in
the second half.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from record import begin, write_result
from same_texts import is_chat, prompts_for

WAYS: Sequence[Mapping[str, Any]] = (
    {"temperature": 0},
    {"temperature": 0.8, "top_p": 0.95, "seed": 1},
    {"temperature": 1.0, "min_p": 0.05, "seed": 2, "frequency_penalty": 0.3},
    {"temperature": 0.7, "seed": 3, "response_format": {"type": "json_object"}},
)
LEAVING, SLOW = 0.2, 0.1  # shares of requests
SMALL_BUFFER = 4096  # bytes of a slow reader's socket
GROWTH = 1.02  # of memory in the second half, at most


@dataclass(frozen=True)
class Address:
    """Where the server listens, and which of its models is asked."""

    port: int
    model: str
    is_chat: bool

    def body(self, prompt: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        asked: dict[str, Any] = {"prompt": prompt}
        if self.is_chat:
            asked = {"messages": [{"role": "user", "content": prompt}]}
        return {"model": self.model, "stream": True, **asked, **fields}


class RequestError(Exception):
    """The server did not answer a request as it should."""


async def lines_of(port: int, request: bytes, buffer: int | None = None) -> AsyncIterator[bytes]:
    """Sends a request and yields the lines of the response, header included, as they come."""
    connection = socket.socket()
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=connection, limit=buffer or 2**16)
    except BaseException:  # a client that is cancelled while it connects
        connection.close()
        raise
    try:
        writer.write(request)
        while line := await reader.readline():
            yield line
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def streamed(
    at: Address, body: Mapping[str, Any], buffer: int | None = None
) -> AsyncIterator[dict[str, Any]]:
    """The events of a streamed answer.

    Raises:
        RequestError: it is refused, has an error in it, or is not complete.
    """
    content = json.dumps(body).encode()
    path = "/v1/chat/completions" if at.is_chat else "/v1/completions"
    header = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    async with aclosing(lines_of(at.port, header.encode() + content, buffer)) as lines:
        status = await anext(lines)
        if b" 200 " not in status:
            raise RequestError(b" ".join([status, *[line async for line in lines]]).decode())
        async for line in lines:
            if line.startswith(b"data: [DONE]"):
                return
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                if "error" in event:
                    raise RequestError(event["error"]["message"])
                yield event
    raise RequestError("the answer ends without its end mark")


async def counts(at: Address) -> dict[str, float]:
    """What /metrics says of the model."""
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    text = b"".join([line async for line in lines_of(at.port, request)]).decode()
    return {
        name: float(value)
        for name, value in re.findall(rf'^(\w+){{model="{at.model}"}} (\S+)\r?$', text, re.M)
    }


async def seconds_to_first(at: Address, prompt: str) -> float:
    """Seconds from a request to the first piece of its text."""
    began = time.perf_counter()
    body = at.body(prompt, {"temperature": 0, "max_tokens": 8})
    async with aclosing(streamed(at, body)) as events:
        async for event in events:
            (choice,) = event["choices"]
            if choice.get("text") or choice.get("delta", {}).get("content"):
                return time.perf_counter() - began
    raise RequestError("the answer has no text")


@dataclass
class Load:
    """What clients do, and what came of it.

    Attributes:
        done: numbers of requests by what became of them.
        errors: what went wrong.
        newcomers: seconds to the first token.
        memory: (seconds since the start, resident MB of the server).
    """

    at: Address
    prompts: Sequence[str]
    tokens: int
    done: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    newcomers: list[float] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    async def client(self, number: int) -> None:
        """Asks for one text after the other."""
        choose = random.Random(number)
        while True:
            try:
                await self._ask(choose)
            except (RequestError, OSError, EOFError) as error:
                self.errors.append(str(error)[:300])

    async def _ask(self, choose: random.Random) -> None:
        length = choose.choice([self.tokens // 4, self.tokens])
        fields = {**choose.choice(WAYS), "max_tokens": length}
        body = self.at.body(choose.choice(self.prompts), fields)
        kind = choose.choices(["leaves", "slow", "reads"], [LEAVING, SLOW, 1 - LEAVING - SLOW])[0]
        left = choose.randrange(length) if kind == "leaves" else None
        text = ""
        buffer = SMALL_BUFFER if kind == "slow" else None
        async with aclosing(streamed(self.at, body, buffer)) as events:
            async for event in events:
                (choice,) = event["choices"]
                piece = choice.get("text") or choice.get("delta", {}).get("content") or ""
                text += piece
                if left is not None and (left := left - 1) < 0:
                    break
                if kind == "slow":
                    await asyncio.sleep(choose.random() / 5)
        self.done[kind] += 1
        if left is None:
            self._compare(json.dumps(body), text)

    def _compare(self, request: str, text: str) -> None:
        if self.texts.setdefault(request, text) != text:
            self.errors.append(f"another text than before for {request[:200]}")

    async def newcomer(self, pause: float) -> None:
        """Asks now and then; each time with a beginning that no cache holds."""
        for number in range(10**9):
            await asyncio.sleep(pause)
            prompt = f"{number} new: {self.prompts[number % len(self.prompts)]}"
            self.newcomers.append(await seconds_to_first(self.at, prompt))

    async def watch(self, process: int, pause: float) -> None:
        """Notes the server's memory."""
        began = time.perf_counter()
        while True:
            status = Path(f"/proc/{process}/status").read_text()
            kilobytes = int(status.partition("VmRSS:")[2].split()[0])
            self.memory.append((time.perf_counter() - began, kilobytes / 1024))
            await asyncio.sleep(pause)

    def growth(self) -> float:
        """Memory at the end divided by that at half time: medians of a tenth of the run each."""
        tenth = max(1, len(self.memory) // 10)
        values = [megabytes for _, megabytes in self.memory]
        half = len(values) // 2
        return median(values[-tenth:]) / median(values[half : half + tenth])


async def run_load(
    load: Load, process: int, streams: int, seconds: float, pause: float
) -> dict[str, float]:
    """Keeps up the load for this time; the server's counts of it, when all clients have left.

    Raises:
        RequestError: a newcomer, or a text after the load, got no answer.
    """
    before = await counts(load.at)
    began = time.perf_counter()
    tasks = [asyncio.create_task(load.client(number)) for number in range(streams)]
    tasks.append(asyncio.create_task(load.newcomer(pause)))
    tasks.append(asyncio.create_task(load.watch(process, seconds / 100)))
    ended, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    after = await counts(load.at)
    elapsed = time.perf_counter() - began
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in ended:
        task.result()
    return {name: after[name] - before[name] for name in after} | {"seconds": elapsed}


async def leaked(at: Address, streams: int) -> int:
    """How many caches are not free after the load. As many texts as there are caches must be
    answered at once."""
    for _ in range(100):
        found = await counts(at)
        if not found["edgespec_texts_running"] + found["edgespec_texts_waiting"]:
            break
        await asyncio.sleep(0.1)
    prompts = [f"{number} after the load" for number in range(streams + 1)]
    answers = await asyncio.gather(
        *(seconds_to_first(at, prompt) for prompt in prompts), return_exceptions=True
    )
    running = int(found["edgespec_texts_running"])
    return running + sum(isinstance(answer, BaseException) for answer in answers)


def started(
    pair: Path, streams: int, threads: int, options: Sequence[str] = ()
) -> tuple[subprocess.Popen[str], Address]:
    """A server with a cache for each stream and one more."""
    command = [sys.executable, "-m", "edgespec", "serve", str(pair), "--port", "0"]
    command += ["--texts", str(streams + 1), "--threads", str(threads), *options]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    line = server.stderr.readline()
    found = re.match(r"(\S+) at http://\S+:(\d+)/v1", line)
    if found is None:
        server.kill()
        sys.exit(line + server.stderr.read())
    return server, Address(int(found[2]), found[1], is_chat(pair))


async def measured(
    load: Load, process: int, streams: int, seconds: float, pause: float
) -> dict[str, Any]:
    """Newcomers alone, then the load, and what is left after it."""
    alone = [
        await seconds_to_first(load.at, f"{number} alone: {prompt}")
        for number, prompt in enumerate([*load.prompts[:12]])
    ][2:]
    found = await run_load(load, process, streams, seconds, pause)
    return {
        "streams": streams,
        "seconds": found["seconds"],
        "requests": dict(load.done),
        "errors": load.errors,
        "leaked caches": await leaked(load.at, streams),
        "memory growth in the second half": load.growth(),
        "memory": load.memory,
        "tokens per second": found["edgespec_tokens_total"] / found["seconds"],
        "rows of a target call": found["edgespec_target_rows_total"]
        / max(1, found["edgespec_target_calls_total"]),
        "seconds to the first token, alone": median(alone),
        "seconds to the first token, newcomers": sorted(load.newcomers),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pair", type=Path)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--tokens", type=int, default=96, help="of a text, at most")
    parser.add_argument("--pause", type=float, default=3, help="seconds between newcomers")
    options, record = begin(parser)
    server, at = started(options.pair, options.streams, options.threads)
    load = Load(at, prompts_for(options.pair)[:40], options.tokens)
    try:
        row = asyncio.run(
            measured(load, server.pid, options.streams, options.minutes * 60, options.pause)
        )
    finally:
        server.terminate()
        server.wait()
    alone, newcomers = (row[f"seconds to the first token, {who}"] for who in ("alone", "newcomers"))
    print(
        f"{row['seconds']:.0f} s, {row['requests']}: {row['tokens per second']:.0f} tokens/s, "
        f"{len(row['errors'])} errors, {row['leaked caches']} leaked caches, memory × "
        f"{row['memory growth in the second half']:.3f} in the second half; first token after "
        f"{1000 * median(newcomers):.0f} ms (90 %: {1000 * newcomers[len(newcomers) * 9 // 10]:.0f}"
        f" ms), {1000 * alone:.0f} ms alone: {median(newcomers) / alone:.2f} times"
    )
    write_result(options, record, row=row)
    if row["errors"] or row["leaked caches"] or row["memory growth in the second half"] > GROWTH:
        sys.exit(f"failed: {row['errors'][:3]}")


if __name__ == "__main__":
    main()
