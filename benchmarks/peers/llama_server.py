"""The servers of llama.cpp and of ik_llama.cpp as peers: tokens in, tokens and own timings out.

    python llama_server.py SERVER MODEL.gguf --threads 2 [options of the server]

The times are those that the server reports, without HTTP. ik_llama.cpp does not return token ids:
its text is tokenized again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from llama_http import free_port, post, wait_until_healthy
from protocol import Generate, Generated, serve

CAPACITY = 4608
UNKNOWN_TOKEN = -1


def version(server: Path) -> dict[str, str]:
    """The version by the program's name, which is that of its folder: llama.cpp/bin."""
    run = subprocess.run([server, "--version"], capture_output=True, text=True, check=True)
    line = next(s for s in (run.stdout + run.stderr).splitlines() if "version" in s)
    return {server.parents[1].name: line.partition(":")[2].strip()}


def generated_tokens(url: str, answer: dict[str, Any]) -> list[int]:
    """The answer's token ids, or as many of its text's.

    A text can be tokenized in another way than it was generated. Its length stays the generated
    one.
    """
    if "tokens" in answer:
        tokens: list[int] = answer["tokens"]
        return tokens
    count = answer["timings"]["predicted_n"]
    again = post(f"{url}/tokenize", {"content": answer["content"], "add_special": False})
    return [*again["tokens"], *[UNKNOWN_TOKEN] * count][:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("server", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    arguments, server_options = parser.parse_known_args()
    url = f"http://127.0.0.1:{(port := free_port())}"
    threads = str(arguments.threads)
    server: subprocess.Popen[bytes] | None = None

    def start() -> tuple[dict[str, Any], Generate]:
        nonlocal server
        ready = {
            "versions": version(arguments.server),
            "weight_bytes": arguments.model.stat().st_size,
        }
        server = subprocess.Popen(
            [
                *(arguments.server, "--model", arguments.model),
                *("--host", "127.0.0.1", "--port", str(port)),
                *("--threads", threads, "--threads-batch", threads),
                *("--parallel", "1", "--ctx-size", str(CAPACITY), "--cache-ram", "0"),
                *server_options,
            ],
            stdout=sys.stderr,
        )
        wait_until_healthy(url, server)
        return ready, generate

    def generate(prompt: list[int], max_new_tokens: int) -> Generated:
        answer = post(
            f"{url}/completion",
            {
                "prompt": prompt,
                "n_predict": max_new_tokens,
                "temperature": 0,
                "samplers": ["temperature"],
                "cache_prompt": False,
                "return_tokens": True,
            },
        )
        timings = answer["timings"]
        if timings["prompt_n"] != len(prompt):
            raise RuntimeError(f"{timings['prompt_n']} of {len(prompt)} prompt tokens computed")
        prefill = timings["prompt_ms"] / 1000
        total = prefill + timings["predicted_ms"] / 1000
        return Generated(generated_tokens(url, answer), 1, prefill, total)

    try:
        serve(start)
    finally:
        if server is not None:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
