"""Whether a pair has the same logits and texts on two processors, or with two instruction sets.

    EDGESPEC_KERNELS=avx2   python benchmarks/same_bits.py record build/smollm2 int8 avx2.json
    EDGESPEC_KERNELS=avx512 python benchmarks/same_bits.py record build/smollm2 int8 avx512.json
    python benchmarks/same_bits.py compare avx2.json avx512.json

A record has a digest of each position's logits and the token ids of each text, greedy and sampled.
The positions are those of the prompts: their logits are compared whatever the texts are.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import edgespec
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.device.kernels import installed_kernels
from edgespec.pair.opening.runtime import machine_of, open_model
from edgespec.pair.tokenizer import load_tokenizer

SUBJECTS = (
    *("The old lighthouse", "Our neighbour's dog", "A bowl of soup", "The last train"),
    *("My grandmother", "This small island", "The new teacher", "A broken clock"),
    *("The river", "A letter from Spain", "The village baker", "One quiet morning"),
    *("The museum", "A heavy storm", "The young doctor", "An empty bottle"),
    *("The winter of 1947", "Their first house", "A box of apples", "The mayor"),
)
ENDINGS = (
    *("was known to everyone in town.", "changed more than we expected."),
    *("costs 12 euros and 50 cents.", "did not arrive before Friday."),
    *("is what I remember best.", "stood near the bridge for 30 years."),
    *("made the children laugh.", "was sold twice, and then forgotten."),
    *("taught me patience.", "will be open again in May."),
)
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    # γ "auto" depends on measured costs, and random numbers depend on the length of rounds.
    "sampled": {"temperature": 0.8, "top_p": 0.95, "seed": 7, "draft": "model", "gamma": 3},
}
PROMPTS = [f"{subject} {ending}" for subject in SUBJECTS for ending in ENDINGS]  # 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True)
    record_parser = commands.add_parser("record")
    record_parser.add_argument("pair", type=Path)
    record_parser.add_argument("format", help="of the target")
    record_parser.add_argument("out", type=Path)
    record_parser.add_argument("--prompts", type=int, default=len(PROMPTS))
    record_parser.add_argument("--tokens", type=int, default=32, help="of each text")
    record_parser.add_argument("--threads", type=int, default=1)
    record_parser.set_defaults(run=lambda args: args.out.write_text(json.dumps(record(args))))
    compare_parser = commands.add_parser("compare")
    compare_parser.add_argument("records", type=Path, nargs=2)
    compare_parser.set_defaults(run=lambda args: compare(*map(read, args.records)))
    args = parser.parse_args()
    args.run(args)


def record(args: argparse.Namespace) -> dict[str, Any]:
    prompts = PROMPTS[:: len(PROMPTS) // args.prompts][: args.prompts]
    device = Device(args.threads)
    manifest, tokenizer = read_manifest(args.pair), load_tokenizer(args.pair)
    model = open_model(args.pair, manifest.target, args.format, device=device)
    logits = [
        scored(model, tokenizer.encode(prompt).ids, manifest.target.is_encoder_decoder)
        for prompt in prompts
    ]
    pair = edgespec.load(args.pair, target_format=args.format, threads=args.threads)
    texts = {
        name: [pair.generate(p, max_new_tokens=args.tokens, **how).token_ids for p in prompts]
        for name, how in WAYS.items()
    }
    return {
        "pair": args.pair.name,
        "format": args.format,
        "kernels": str(installed_kernels()),
        "machine": str(machine_of(device)),
        "prompts": prompts,
        "logits": logits,
        "vocabulary": manifest.target.vocab_size,
        "texts": texts,
    }


def scored(model: Any, tokens: list[int], encodes: bool) -> list[str]:
    """A digest of the logits at each position of a text, in one call; a model that encodes reads
    the text, too."""
    pending = model.prefill(tokens if encodes else tokens[:1])
    rows = model.score([pending, *(tokens if encodes else tokens[1:])])
    return [hashlib.sha256(row.tobytes()).hexdigest()[:16] for row in rows]


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def compare(a: dict[str, Any], b: dict[str, Any]) -> None:
    """Prints how many positions and texts differ; exits with status 1 if any do."""
    for one in (a, b):
        print(f"{one['pair']} {one['format']}: {one['kernels']}, {one['machine']}")
    if (a["pair"], a["format"], a["prompts"]) != (b["pair"], b["format"], b["prompts"]):
        sys.exit("the records are of different pairs, formats or prompts")
    rows = [
        (x, y)
        for xs, ys in zip(a["logits"], b["logits"], strict=True)
        for x, y in zip(xs, ys, strict=True)
    ]
    differing = sum(x != y for x, y in rows)
    print(f"{differing} of {len(rows)} positions differ ({len(rows) * a['vocabulary']} logits)")
    for name, texts in a["texts"].items():
        others = sum(x != y for x, y in zip(texts, b["texts"][name], strict=True))
        print(f"{others} of {len(texts)} {name} texts differ")
        differing += others
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()
