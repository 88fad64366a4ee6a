"""Writes the tables of README.md and docs/measurements/results.md from benchmarks/results.

python benchmarks/tables.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from record import describe

HERE = Path(__file__).parent
ROOT = HERE.parent


def result(name: str) -> dict[str, Any]:
    return json.loads((HERE / "results" / f"{name}.json").read_text())


def table(header: str, rows: Iterable[str]) -> list[str]:
    """Lines of Markdown."""
    return [header, "|" + "---|" * (header.count("|") - 1), *rows]


def t5_table(rows: list[dict[str, Any]]) -> list[str]:
    return table(
        "| way | tokens/s | vs. own plain | equal to own plain | equal to edgespec fp32 |",
        (
            f"| {row['way']} | {row['tokens_per_second']:.0f} | {row['over_own_plain']:.2f} | "
            f"{row['texts_equal_to_own_plain']} of {row['sentences']} | "
            f"{row['texts_equal_to_edgespec_fp32']} |"
            for row in rows
        ),
    )


def chat_table(rows: list[dict[str, Any]]) -> list[str]:
    return table(
        "| target | prompts | sampling | way | tokens/s | vs. plain | tokens per call | loop |",
        (
            f"| {row['target']} | {row['prompts']} | {row['sampling']} | {row['way']} | "
            f"{row['tokens_per_second']:.1f} | {row['ratio']:.2f} | "
            f"{row['tokens_per_target_call']:.2f} | {row['loop_share']:.1%} |"
            for row in rows
        ),
    )


CATEGORIES = ("questions", "code", "summaries")


def compare_tables(contests: list[dict[str, Any]]) -> list[str]:
    """A table for each contest: speeds by kind of prompt, and edgespec's over the peer's."""
    lines: list[str] = []
    for contest in contests:
        kinds = list(dict.fromkeys(row["prompts"] for row in contest["rows"]))
        lines += [
            f"**{contest['contest']}** (commit {contest['commit']}, load {contest['load']:.2f})",
            "",
            f"| way | MB | {' | '.join(kinds)} | {contest['ours']} vs. it | "
            "decoding only | texts equal to own plain |",
            "|---" * (len(kinds) + 5) + "|",
        ]
        ways: dict[str, dict[str, dict[str, Any]]] = {}
        for row in contest["rows"]:
            ways.setdefault(row["way"], {})[row["prompts"]] = row
        lines += [compare_row(way, [found[kind] for kind in kinds]) for way, found in ways.items()]
        blank = " |" * len(kinds)
        missing = contest["missing"].items()
        lines += [f"| {way} | |{blank} {reason} | | |" for way, reason in missing]
        lines.append("")
    return lines[:-1]


def compare_row(way: str, rows: list[dict[str, Any]]) -> str:
    def ratios(key: str) -> str:
        return ", ".join(f"{row[key]:.2f}" for row in rows if key in row)

    speeds = " | ".join(
        f"{row['tokens_per_second']:.1f} ({row['decode_tokens_per_second']:.1f})" for row in rows
    )
    equal = sum(row["texts_equal_to_own_plain"] for row in rows)
    return (
        f"| {way} | {rows[0]['weight_bytes'] / 1e6:.0f} | {speeds} | {ratios('ours_over_it')} | "
        f"{ratios('ours_over_it_decode')} | {equal} of {sum(row['texts'] for row in rows)} |"
    )


def cache_table(results: list[dict[str, Any]]) -> list[str]:
    """A step is a call with two rows; the first row of a result is its prompt."""
    lines: list[str] = []
    for run in results:
        prompt, *rows = run["rows"]
        steps = {row["cached"]: row for row in rows if row["positions"] == 2}
        for cache, found in run["caches"].items():
            times = " | ".join(f"{steps[cached][cache]:.1f}" for cached in sorted(steps))
            lines.append(
                f"| {run['format']} | {cache} | {found['bytes'] / 1e6:.1f} | "
                f"{prompt[cache] / 1e3:.2f} | {times} | {found['kl']:.1e} | {found['top1']:.1%} | "
                f"{found['perplexity']:.1f} |"
            )
    return table(
        "| weights | cache | MB at 2 048 | prompt, s | step at 64 cached, ms | 512 | 2 048 | KL "
        "| top-1 | perplexity |",
        lines,
    )


def curve_table(rows: list[dict[str, Any]]) -> list[str]:
    counts = ("2", "5", "9", "17")
    return table(
        "| format | t(1) ms | " + " | ".join(f"v({m})" for m in counts) + " |",
        (
            f"| {row['format']} | {row['step_ms']:.1f} | "
            + " | ".join(f"{row['v'][m]:.2f}" for m in counts)
            + " |"
            for row in rows
        ),
    )


def conversation_table(rows: list[dict[str, Any]]) -> list[str]:
    ways = ("reused", "recomputed", "one text")
    return table(
        "| turn | tokens before it | earlier turns kept | computed again | as one text |",
        (
            f"| {row['turn']} | {row['prompt_tokens']} | "
            + " | ".join(f"{row[f'{way}, ms']:.0f} ms" for way in ways)
            + " |"
            for row in rows
        ),
    )


def long_table(rows: list[dict[str, Any]]) -> list[str]:
    return table(
        "| prompt tokens | way | tokens/s | vs. plain | tokens per call |",
        (
            f"| {row['prompt_tokens']} | {row['way']} | {row['tokens_per_second']:.1f} | "
            f"{row['over_plain']:.2f} | {row['tokens_per_target_call']:.2f} |"
            for row in rows
        ),
    )


def prediction_table(rows: list[dict[str, Any]]) -> list[str]:
    return table(
        "| pair | text | target | draft | γ | α | predicted | measured | error |",
        (
            f"| {row['pair']} | {row['text']} | {row['target']} | {row['draft']} | "
            f"{row['gamma']} | {row['acceptance']:.2f} | {row['predicted']:.2f} | "
            f"{row['measured']:.2f} | {row['error']:+.0%} |"
            for row in rows
        ),
    )


def speedups(chat: dict[str, Any], contests: list[dict[str, Any]]) -> list[str]:
    """The table of README.md: speed over plain decoding, and over the fastest peer."""
    peers = {contest["contest"]: contest["rows"] for contest in contests}
    lines = [
        "| weights | vs. plain decoding: questions | code | summaries "
        "| vs. the fastest peer: questions | code | summaries |",
        "|---|---|---|---|---|---|---|",
    ]
    for label, target, bits in (
        ("int8", "int8", "8 bits"),
        ("int8, peers at 4 bits", None, "4 bits, ours 8"),
        ("fp16", "fp16", "16 bits"),
        ("fp32", "fp32", "32 bits"),
    ):
        plain = [over_plain(chat["rows"], target, kind) if target else "" for kind in CATEGORIES]
        over = [over_the_fastest_peer(peers[bits], kind) for kind in CATEGORIES]
        lines.append(f"| {label} | {' | '.join([*plain, *over])} |")
    return lines


def over_plain(rows: list[dict[str, Any]], target: str, prompts: str) -> str:
    """Greedy speed-up over plain decoding of the default: both drafters, γ "auto"."""
    wanted = (target, "greedy", prompts, "both, γ auto")
    keys = ("target", "sampling", "prompts", "way")
    ratio = next(row["ratio"] for row in rows if tuple(row[key] for key in keys) == wanted)
    return f"{ratio:.2f}"


def over_the_fastest_peer(rows: list[dict[str, Any]], prompts: str) -> str:
    """edgespec's speed over that of the fastest setting of any peer."""
    ratios = (
        row["ours_over_it"] for row in rows if row["prompts"] == prompts and "ours_over_it" in row
    )
    return f"{min(ratios):.2f}"


def insert(path: Path, name: str, lines: list[str]) -> None:
    text = path.read_text(encoding="utf-8")
    block = "\n".join([f"<!-- {name}:begin -->", *lines, f"<!-- {name}:end -->"])
    pattern = rf"<!-- {name}:begin -->.*?<!-- {name}:end -->"
    assert re.search(pattern, text, flags=re.DOTALL), f"{path} has no markers for the table {name}"
    path.write_text(re.sub(pattern, lambda _: block, text, flags=re.DOTALL), encoding="utf-8")


def main() -> None:
    t5, chat = result("t5_pair"), result("chat_lookup")
    caches = [result(f"cache_smollm2_{weights}") for weights in ("fp32", "int8")]
    speed = ROOT / "docs" / "measurements" / "results.md"
    insert(speed, "t5", [describe(t5["environment"]), "", *t5_table(t5["rows"])])
    insert(speed, "chat", [describe(chat["environment"]), "", *chat_table(chat["rows"])])
    compare, predictions = result("compare_chat"), result("predictions")
    tables = compare_tables(compare["contests"])
    insert(speed, "compare", [describe(compare["environment"]), "", *tables])
    documents = result("compare_documents")
    tables = compare_tables(documents["contests"])
    insert(speed, "documents", [describe(documents["environment"]), "", *tables])
    lines = [describe(predictions["environment"]), "", *prediction_table(predictions["rows"])]
    insert(speed, "predictions", lines)
    curves = result("cost_curves_smollm2")
    insert(speed, "curves", [describe(curves["environment"]), "", *curve_table(curves["rows"])])
    chats = result("conversation_smollm2")
    insert(speed, "talk", [describe(chats["environment"]), "", *conversation_table(chats["rows"])])
    long = result("long_prompt_smollm2")
    insert(speed, "long", [describe(long["environment"]), "", *long_table(long["rows"])])
    insert(speed, "caches", [describe(caches[0]["environment"]), "", *cache_table(caches)])
    contests = ", ".join(dict.fromkeys(one["commit"] for one in compare["contests"]))
    source = (
        f"({describe(chat['environment'])}; peers at commits {contests}; "
        "`benchmarks/chat_lookup.py`, `compare_chat.py`)"
    )
    insert(ROOT / "README.md", "speed", [*speedups(chat, compare["contests"]), "", source])


if __name__ == "__main__":
    main()
