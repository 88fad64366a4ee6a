"""Whether two commits generate the same texts: records token ids under each, then compares them.

    OLD/.venv/bin/python benchmarks/same_texts.py record OLD/build/en-de old.json
    NEW/.venv/bin/python benchmarks/same_texts.py record NEW/build/en-de new.json
    python benchmarks/same_texts.py compare old.json new.json

`record` runs the `edgespec` that its Python imports (an editable install, or PYTHONPATH) and uses
only `edgespec.load`, `Pair.generate` and `Generation.token_ids`. 100 prompts, each greedy and
sampled, without a draft and with drafts. With sampling γ is fixed, because γ "auto" depends on the
pair's measured costs, and the length of rounds decides which random numbers a token is drawn with.
`compare` prints the texts that differ and exits with status 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import edgespec

EXAMPLES = Path(__file__).parents[1] / "examples"
SAMPLING = {"temperature": 0.8, "top_p": 0.95, "rule": "block"}  # its default
WAYS: dict[str, dict[str, Any]] = {
    "greedy, no draft": {"draft": False},
    "greedy, default draft": {"draft": True},
    "greedy, draft model, γ 3": {"draft": "model", "gamma": 3},
    "sampled, no draft": {"draft": False, **SAMPLING},
    "sampled, draft model, γ 3": {"draft": "model", "gamma": 3, **SAMPLING},
    "sampled, lookup, γ 4": {"draft": "lookup", "gamma": 4, **SAMPLING, "rule": "token"},
}
# Package descriptions, what the shipped translation pair was trained on.
THINGS = (
    *("Python bindings", "This package contains the documentation", "command line tool"),
    *("shared library", "development files", "graphical user interface", "plug-in"),
    *("A small and fast server", "Collection of examples", "The file could not be opened: tests"),
)
PURPOSES = (
    *("for reading and writing image files", "for the GNU scientific library"),
    *("to convert audio files between several formats", "for the GNOME desktop"),
    *("to list the contents of compressed archives", "for playing strategy games"),
    *("that monitors the network and prints a report", "for editing mathematical formulas"),
    *("which runs on all supported architectures", "to search for text in many documents at once"),
)


def prompts_for(pair: Path) -> list[str]:
    """100 prompts: questions for a chat model, package descriptions for the translation pair."""
    if not is_chat(pair):
        return [f"{thing} {purpose}" for thing, purpose in product(THINGS, PURPOSES)]
    files = (EXAMPLES / "smollm2_draft" / name for name in ("held_out.txt", "requests.txt"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line.strip() and not line.startswith("#")][:100]


def is_chat(pair: Path) -> bool:
    """Whether the pair is of a chat model, by its manifest."""
    return bool(json.loads((pair / "edgespec.json").read_text(encoding="utf-8")).get("chat"))


def source() -> str:
    """The folder of the imported `edgespec`, and its commit."""
    folder = Path(edgespec.__file__).parents[1]
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
    commit = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return f"{folder} at {commit or 'no commit'}"


def record(options: argparse.Namespace) -> None:
    """Generates all texts and writes their token ids."""
    chat = is_chat(options.pair)
    prompts = prompts_for(options.pair)[: options.prompts]
    pair = edgespec.load(options.pair, threads=options.threads, target_format=options.target_format)
    texts: dict[str, list[list[int]]] = {}
    for way, settings in WAYS.items():
        texts[way] = [
            pair.generate(
                prompt, chat=chat, max_new_tokens=options.tokens, seed=seed, **settings
            ).token_ids
            for seed, prompt in enumerate(prompts)
        ]
        print(f"{way}: {sum(map(len, texts[way]))} tokens in {len(prompts)} texts", flush=True)
    settings = {name: getattr(options, name) for name in ("tokens", "threads", "target_format")}
    found = {"source": source(), "settings": settings, "prompts": prompts, "texts": texts}
    options.out.write_text(json.dumps(found, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{options.out}: {found['source']}")


def compare(options: argparse.Namespace) -> None:
    """Prints how many texts are equal, and those that differ."""
    old, new = (json.loads(file.read_text(encoding="utf-8")) for file in options.files)
    print(f"{old['source']}\n{new['source']}")
    for what in ("settings", "prompts"):
        if old[what] != new[what]:
            sys.exit(f"the two files have different {what}; record both with the same options")
    different = 0
    for way, texts in old["texts"].items():
        pairs = list(zip(old["prompts"], texts, new["texts"][way], strict=True))
        equal = sum(before == after for _, before, after in pairs)
        print(f"{way:26} {equal} of {len(pairs)} texts are equal")
        different += len(pairs) - equal
        for prompt, before, after in pairs:
            if before != after:
                index = common_prefix(before, after)
                print(
                    f"  from token {index} on: {before[index : index + 6]} became "
                    f"{after[index : index + 6]}: {prompt[:60]}"
                )
    if different:
        sys.exit(f"{different} texts differ")


def common_prefix(before: list[int], after: list[int]) -> int:
    """Length of the common prefix of two texts."""
    both = zip(before, after, strict=False)
    unequal = (index for index, (a, b) in enumerate(both) if a != b)
    return next(unequal, min(len(before), len(after)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record", help="generate and write token ids")
    recording.set_defaults(run=record)
    recording.add_argument("pair", type=Path)
    recording.add_argument("out", type=Path)
    recording.add_argument("--prompts", type=int, default=100)
    recording.add_argument("--tokens", type=int, default=48)
    recording.add_argument("--threads", type=int, default=2)
    recording.add_argument("--target-format")
    comparing = commands.add_parser("compare", help="compare two recordings")
    comparing.set_defaults(run=compare)
    comparing.add_argument("files", type=Path, nargs=2, metavar="FILE")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
