"""Writes the tables of README.md and docs/speed.md from benchmarks/results.

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
        "| way | tokens/s | over own plain | texts equal to own plain | to edgespec fp32 |",
        (
            f"| {row['way']} | {row['tokens_per_second']:.0f} | {row['over_own_plain']:.2f} | "
            f"{row['texts_equal_to_own_plain']} of {row['sentences']} | "
            f"{row['texts_equal_to_edgespec_fp32']} |"
            for row in rows
        ),
    )


def chat_table(rows: list[dict[str, Any]]) -> list[str]:
    return table(
        "| target | prompts | sampling | way | tokens/s | over plain | tokens a call | loop |",
        (
            f"| {row['target']} | {row['prompts']} | {row['sampling']} | {row['way']} | "
            f"{row['tokens_per_second']:.1f} | {row['ratio']:.2f} | "
            f"{row['tokens_per_target_call']:.2f} | {row['loop_share']:.1%} |"
            for row in rows
        ),
    )


CATEGORIES = ("questions", "code", "summaries")


def compare_tables(contests: list[dict[str, Any]]) -> list[str]:
    """A table for each number of bits: speeds by kind of prompt, and ours over theirs."""
    lines: list[str] = []
    for contest in contests:
        kinds = list(dict.fromkeys(row["prompts"] for row in contest["rows"]))
        lines += [
            f"**{contest['contest']}** (commit {contest['commit']}, load {contest['load']:.2f})",
            "",
            f"| way | MB | {' | '.join(kinds)} | {contest['ours']} over it | "
            "decoding only | texts as own plain |",
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
    """A step is a call of two positions; the first of a result's rows is its prompt."""
    lines: list[str] = []
    for run in results:
        prompt, *rows = run["rows"]
        steps = {row["cached"]: row for row in rows if row["positions"] == 2}
        for cache, far in run["caches"].items():
            times = " | ".join(f"{steps[cached][cache]:.1f}" for cached in sorted(steps))
            lines.append(
                f"| {run['format']} | {cache} | {far['bytes'] / 1e6:.1f} | "
                f"{prompt[cache] / 1e3:.2f} | {times} | {far['kl']:.1e} | {far['top1']:.1%} | "
                f"{far['perplexity']:.1f} |"
            )
    return table(
        "| weights | cache | MB at 2 048 | prompt, s | step behind 64, ms | 512 | 2 048 | KL "
        "| top-1 | perplexity |",
        lines,
    )


def curve_table(rows: list[dict[str, Any]]) -> list[str]:
    shown = ("2", "5", "9", "17")
    return table(
        "| format | t(1) ms | " + " | ".join(f"v({m})" for m in shown) + " |",
        (
            f"| {row['format']} | {row['step_ms']:.1f} | "
            + " | ".join(f"{row['v'][m]:.2f}" for m in shown)
            + " |"
            for row in rows
        ),
    )


def conversation_table(rows: list[dict[str, Any]]) -> list[str]:
    ways = ("kept", "anew", "one text")
    return table(
        "| turn | tokens in front of it | earlier turns kept | computed anew | as one text |",
        (
            f"| {row['turn']} | {row['prompt_tokens']} | "
            + " | ".join(f"{row[f'{way}, ms']:.0f} ms" for way in ways)
            + " |"
            for row in rows
        ),
    )


def long_table(rows: list[dict[str, Any]]) -> list[str]:
    return table(
        "| tokens in front | way | tokens/s | over plain | tokens a call |",
        (
            f"| {row['prompt_tokens']} | {row['way']} | {row['tokens_per_second']:.1f} | "
            f"{row['over_plain']:.2f} | {row['tokens_per_target_call']:.2f} |"
            for row in rows
        ),
    )


def prediction_table(rows: list[dict[str, Any]]) -> list[str]:
    return table(
        "| pair | text | target | draft | γ | α | predicted | measured | off |",
        (
            f"| {row['pair']} | {row['text']} | {row['target']} | {row['draft']} | "
            f"{row['gamma']} | {row['acceptance']:.2f} | {row['predicted']:.2f} | "
            f"{row['measured']:.2f} | {row['off']:+.0%} |"
            for row in rows
        ),
    )


def summary(t5: dict[str, Any], chat: dict[str, Any]) -> list[str]:
    ways = {row["way"]: row for row in t5["rows"]}
    plain = ways["edgespec fp32, plain"]["tokens_per_second"]

    def t5_row(label: str, way: str) -> str:
        speed = ways[way]["tokens_per_second"]
        return f"| {label} | {speed:.0f} | {speed / plain:.2f} |"

    lines = [
        "English-German T5 pair, greedy, "
        f"{t5['rows'][0]['sentences']} held-out sentences, all texts identical:",
        "",
        "| | tokens/s | over edgespec fp32 plain |",
        "|---|---|---|",
        *(
            t5_row(f"edgespec {kind}{label}", f"edgespec {kind}, {way}")
            for kind in ("fp32", "fp16", "int8")
            for label, way in (("", "plain"), (" with draft (int8)", "draft int8, γ auto"))
        ),
        t5_row("transformers fp32", "transformers fp32, plain"),
        t5_row("transformers fp32 with assistant", "transformers fp32, assistant"),
        *(
            t5_row(f"ctranslate2 {kind}", f"ctranslate2 {kind}, plain")
            for kind in ("fp32", "int8")
            if f"ctranslate2 {kind}, plain" in ways
        ),
        "",
        "SmolLM2-135M-Instruct with its draft and prompt lookup over plain decoding of the same "
        "target:",
        "",
        "| | questions | code | summaries and copies | 8 held-out prompts |",
        "|---|---|---|---|---|",
    ]
    for target in dict.fromkeys(row["target"] for row in chat["rows"]):
        for sampling in ("greedy", "sampled"):
            ratios = [
                next(
                    row["ratio"]
                    for row in chat["rows"]
                    if (row["target"], row["sampling"], row["prompts"], row["way"])
                    == (target, sampling, prompts, "both, γ auto")
                )
                for prompts in (*CATEGORIES, "held-out")
            ]
            cells = " | ".join(f"{ratio:.2f}" for ratio in ratios)
            lines.append(f"| {target}, {sampling} | {cells} |")
    return lines


def over_the_best_peer(contests: list[dict[str, Any]]) -> list[str]:
    """Ours over whichever way of whichever peer was the fastest, by kind of prompt."""
    lines = [
        "Over the fastest way of llama.cpp, OpenVINO GenAI and onnxruntime-genai, speculation of "
        "their own included:",
        "",
        "| weights | questions | code | summaries and copies |",
        "|---|---|---|---|",
    ]
    for contest in contests:
        worst = (
            min(
                row["ours_over_it"]
                for row in contest["rows"]
                if row["prompts"] == kind and "ours_over_it" in row
            )
            for kind in CATEGORIES
        )
        lines.append(f"| {contest['contest']} | {' | '.join(f'{ratio:.2f}' for ratio in worst)} |")
    return lines


def insert(path: Path, name: str, lines: list[str]) -> None:
    text = path.read_text(encoding="utf-8")
    block = "\n".join([f"<!-- {name}:begin -->", *lines, f"<!-- {name}:end -->"])
    pattern = rf"<!-- {name}:begin -->.*?<!-- {name}:end -->"
    assert re.search(pattern, text, flags=re.DOTALL), f"{path} has no place for {name}"
    path.write_text(re.sub(pattern, lambda _: block, text, flags=re.DOTALL), encoding="utf-8")


def main() -> None:
    t5, chat = result("t5_pair"), result("chat_lookup")
    caches = [result(f"cache_smollm2_{weights}") for weights in ("fp32", "int8")]
    speed = ROOT / "docs" / "speed.md"
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
    talk = result("conversation_smollm2")
    insert(speed, "talk", [describe(talk["environment"]), "", *conversation_table(talk["rows"])])
    long = result("long_prompt_smollm2")
    insert(speed, "long", [describe(long["environment"]), "", *long_table(long["rows"])])
    insert(speed, "caches", [describe(caches[0]["environment"]), "", *cache_table(caches)])
    scripts = "`benchmarks/t5_pair.py`, `chat_lookup.py`, `compare_chat.py`"
    chats = chat["environment"]["commit"]
    contests = ", ".join(dict.fromkeys(one["commit"] for one in compare["contests"]))
    source = f"({describe(t5['environment'])}; chats {chats}; peers {contests}; {scripts})"
    peers = over_the_best_peer(compare["contests"])
    insert(ROOT / "README.md", "speed", [*summary(t5, chat), "", *peers, "", source])


if __name__ == "__main__":
    main()
