"""edgespec against five peers, on SmolLM2-135M.

    benchmarks/peers/install .peers
    python benchmarks/compare_chat.py build/smollm2 --json benchmarks/results/compare_chat.json
    python benchmarks/compare_chat.py build/smollm2 --prompts benchmarks/prompts/six_kinds.json
    python benchmarks/compare_chat.py build/smollm2 --documents docs/decisions/*.md
    python benchmarks/compare_chat.py build/smollm2 --ours libedgespec --drafts model lookup \\
        --contests '8 bits' --peers llama.cpp ik_llama.cpp --work build/compare_native

The peers: llama.cpp, ik_llama.cpp, OpenVINO GenAI, onnxruntime-genai, and optimum's models under
transformers' generation. Every peer gets the weights that the pair was exported from, in at most as
many bits as edgespec's, and decodes plainly and with its own speculation. Each way to decode runs
in a process of its own, with the same number of threads. All get the same token ids and decode
greedily. Each prompt's texts have the length of the shortest, so all ways generate the same number
of tokens. Ways alternate on every prompt, and edgespec runs again next to each opponent, so drift
of the machine affects both.

A peer that is not installed gets a row with the reason. A stopped run continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import edgespec
from peers.measurements import Log, Turn, fastest_opponents, interleaved, summary, together
from peers.prompts import Prompt, built_in, digest, encoded, first_of_each, of_file, summaries
from peers.running import Running, add_path_options, paths_of
from peers.ways import CONTESTS, DRAFTS, PEERS, Contest
from record import describe, environment


def measure_contest(
    name: str,
    contest: Contest,
    running: Running,
    prompts: Sequence[Prompt],
    repeats: int,
    ends: Sequence[int],
    log: Log,
) -> None:
    """Measures what the log does not contain yet."""
    for repeat in range(repeats + 1):
        for prompt in prompts:
            where = (name, prompt.category, prompt.index)
            done = log.find(*where, repeat)
            if done and running.ready.keys() <= {one.way for one in done.measurements}:
                continue
            order = [(way.name, "") for way in contest.ways]
            limit = prompt.limit
            if repeat:
                opponents = (way.name for way in contest.opponents)
                order = interleaved([way for way, _ in order], opponents, contest.ours.name, repeat)
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
    if len({turn.category for turn in turns}) > 1:
        turns += together(turns)
    ready = running.ready
    known = {way.name: way for way in contest.ways}
    plain_of = {way.name: way.plain for way in contest.ways}
    rows = [
        {"weight_bytes": ready[row["way"]]["weight_bytes"], **row}
        for row in summary(turns, plain_of, contest.our_plain.name)
        if row["way"] in ready
    ]
    for row in rows:
        over = f"  ours over it ×{row['ours_over_it']:.2f}" if "ours_over_it" in row else ""
        print(
            f"{row['prompts']:12} {row['way']:38} {row['tokens_per_second']:6.1f} tokens/s, "
            f"first after {row['first_token_seconds']:.3f} s, "
            f"decoding {row['decode_tokens_per_second']:6.1f}{over}"
        )
    return {
        "contest": name,
        "ours": contest.ours.name,
        "load": median(turn.load for turn in turns),
        "options": {way: " ".join(known[way].options) for way in ready},
        "missing": running.missing,
        "fastest_opponents": fastest_opponents(rows),
        "rows": rows,
    }


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pair", type=Path, help="exported in the contests' formats, with a draft")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--contests", nargs="*", choices=CONTESTS, default=list(CONTESTS))
    parser.add_argument("--format", help="edgespec's, in place of the contests' own")
    parser.add_argument(
        "--drafts",
        nargs="+",
        choices=DRAFTS,
        default=list(DRAFTS),
        help="edgespec's ways; the first is compared with the peers (default: all)",
    )
    parser.add_argument("--peer-draft", type=Path, help="a GGUF file: the peers' draft model")
    texts = parser.add_mutually_exclusive_group()
    texts.add_argument("--prompts", type=Path, help="JSON, in place of the built-in prompts")
    texts.add_argument("--documents", nargs="+", type=Path, help="summarise these texts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=96, help="at most, in each text")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--each", type=int, metavar="N", help="only the first N prompts of a kind")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one prompt of a kind, 8 tokens: a check that everything runs",
    )
    parser.add_argument("--fresh", action="store_true", help="delete what was measured before")
    add_path_options(parser)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def texts_of(options: argparse.Namespace, pair: edgespec.Pair) -> tuple[str, list[Prompt]]:
    """A name for the chosen prompts, which is that of their log, and the prompts."""
    if options.prompts:
        return options.prompts.stem, encoded(pair, of_file(options.prompts))
    if options.documents:
        return "documents", encoded(pair, summaries(pair, options.documents, options.tokens))
    return "measured", encoded(pair, built_in(options.tokens))


def contest_of(name: str, options: argparse.Namespace) -> Contest:
    """A contest as the command line wants it."""
    contest = CONTESTS[name].among(options.peers)
    if options.peer_draft:
        contest = contest.with_draft_model(str(options.peer_draft))
    drafts = tuple(dict.fromkeys([*options.drafts, "none"]))
    return replace(contest, format=options.format or contest.format, drafts=drafts)


def main() -> None:
    options = parsed_options()
    paths = paths_of(options)
    pair = edgespec.load(options.pair, threads=options.threads)
    ends = pair.manifest.eos_token_ids
    kind, prompts = texts_of(options, pair)
    del pair  # and its threads
    repeats = options.repeats
    if options.each:
        prompts = first_of_each(prompts, options.each, options.tokens)
    if options.quick:
        kind, prompts, repeats = f"quick_{kind}", first_of_each(prompts, 1, 8), 1
    settings = {
        "prompts": digest(prompts),
        "threads": options.threads,
        "pair": str(options.pair),
        "format": options.format,
        "drafts": options.drafts,
        "ours": options.ours,
    }
    path = options.work / f"{kind}.jsonl"
    if options.fresh or options.quick:
        path.unlink(missing_ok=True)
    try:
        log = Log(path, settings)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    record = environment(options.threads)
    print(describe(record))
    contests = []
    for name in options.contests:
        contest = contest_of(name, options)
        with Running(contest, paths, options.threads, ends[0]) as running:
            measure_contest(name, contest, running, prompts, repeats, ends, log)
            entry = report(name, contest, running, log)
            contests.append({"commit": record["commit"], **entry})
            for ready in running.ready.values():
                record["versions"] |= ready["versions"]
    if options.json:
        found = {"environment": record, "settings": settings, "contests": contests}
        options.json.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
