"""Writes the tables of README.md and docs/measurements/results.md from benchmarks/results.

python benchmarks/tables.py
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from record import describe

HERE = Path(__file__).parent
ROOT = HERE.parent


def result_file(name: str) -> Path:
    return HERE / "results" / f"{name}.json"


def result(name: str) -> dict[str, Any]:
    return json.loads(result_file(name).read_text())


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
            "decoding | equal to own plain |",
            "|---" * (len(kinds) + 5) + "|",
        ]
        ways: dict[str, dict[str, dict[str, Any]]] = {}
        for row in contest["rows"]:
            ways.setdefault(row["way"], {})[row["prompts"]] = row
        lines += [compare_row(way, [found[kind] for kind in kinds]) for way, found in ways.items()]
        blank = " |" * len(kinds)
        missing = contest["missing"].items()
        lines += [f"| {way} | |{blank} {short(reason)} | | |" for way, reason in missing]
        lines.append("")
    return lines[:-1]


def short(reason: str) -> str:
    """The beginning of a peer's error; the results have all of it."""
    return reason if len(reason) <= 50 else f"{reason[:49].rstrip()}…"


def compare_row(way: str, rows: list[dict[str, Any]]) -> str:
    def ratios(key: str) -> str:
        return ", ".join(f"{row[key]:.2f}" for row in rows if key in row)

    speeds = " | ".join(
        f"{row['tokens_per_second']:.1f} ({row['decode_tokens_per_second']:.1f})" for row in rows
    )
    equal = sum(row["texts_equal_to_own_plain"] for row in rows)
    return (
        f"| {way} | {rows[0]['weight_bytes'] / 1e6:.0f} | {speeds} | {ratios('ours_over_it')} | "
        f"{ratios('ours_over_it_decode')} | {equal}/{sum(row['texts'] for row in rows)} |"
    )


def kinds_tables(contests: list[dict[str, Any]]) -> list[str]:
    """A table for each contest: edgespec over each way of each peer, by kind of task."""
    lines: list[str] = []
    for contest in contests:
        rows = [row for row in contest["rows"] if "ours_over_it" in row]
        if not rows:
            continue  # no peer ran
        kinds = list(dict.fromkeys(row["prompts"] for row in rows))
        ways: dict[str, dict[str, dict[str, Any]]] = {}
        for row in rows:
            ways.setdefault(row["way"], {})[row["prompts"]] = row
        repeats = max(row["repeats"] for row in rows)
        lines += [
            f"**{contest['contest']}**: {contest['ours']}, over each peer (commit "
            f"{contest['commit']}, load {contest['load']:.2f}, {repeats} repeats)",
            "",
            *ratio_table(kinds, ways, contest["fastest_opponents"]),
            *(
                f"| {way} |{' |' * len(kinds)} {short(why)} |"
                for way, why in contest["missing"].items()
            ),
            "",
        ]
    return lines[:-1]


def ratio_table(
    kinds: list[str],
    ways: dict[str, dict[str, dict[str, Any]]],
    fastest: dict[str, dict[str, dict[str, Any]]],
) -> list[str]:
    """A row for each way; the number of texts is in the header, the last row has the minima."""
    some = next(iter(ways.values()))
    header = "".join(f" {kind} ({some[kind]['texts']}) |" for kind in kinds)
    rows = []
    for way, of_kind in ways.items():
        ratios = "".join(f" {of_kind[kind]['ours_over_it']:.2f} |" for kind in kinds)
        rows.append(f"| {way} |{ratios} {of_kind[kinds[-1]]['tokens_per_second']:.1f} |")
    minima = "".join(f" **{fastest[kind]['whole generation']['ratio']:.2f}** |" for kind in kinds)
    return table(f"| way |{header} its tokens/s |", [*rows, f"| **fastest** |{minima} |"])


def first_token_tables(contests: list[dict[str, Any]]) -> list[str]:
    """Times to the first token, and the peers' over edgespec's."""
    lines: list[str] = []
    for contest in contests:
        kinds = list(dict.fromkeys(row["prompts"] for row in contest["rows"]))
        ways: dict[str, list[dict[str, Any]]] = {}
        for row in contest["rows"]:
            ways.setdefault(row["way"], []).append(row)
        header = "".join(f" {kind}, s | over edgespec's |" for kind in kinds)
        rows = (
            f"| {way} |{''.join(first_token_cells(row) for row in found)}"
            for way, found in ways.items()
        )
        lines += [
            f"**{contest['contest']}**: {contest['ours']}",
            "",
            *table(f"| way |{header}", rows),
            "",
        ]
    return lines[:-1]


def first_token_cells(row: dict[str, Any]) -> str:
    ratio = f"{row['its_first_token_over_ours']:.2f}" if "its_first_token_over_ours" in row else ""
    return f" {row['first_token_seconds']:.2f} | {ratio} |"


def distance_table(rows: list[dict[str, Any]]) -> list[str]:
    return table(
        "| text | positions | model | MB | KL | top-1 | perplexity (fp32) |",
        (
            f"| {row['text']} | {row['positions']} | {row['model']} | "
            f"{row['weight_bytes'] / 1e6:.0f} | {row['kl']:.4f} | {row['top1']:.1%} | "
            f"{row['perplexity']:.2f} ({row['reference_perplexity']:.2f}) |"
            for row in rows
        ),
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


KINDS = ("chat", "questions", "maths", "summaries", "translation", "retrieval", "all")


def speed_table(contests: list[dict[str, Any]]) -> list[str]:
    """The first table of README.md: whole generations over plain decoding and over the fastest
    peer, its own speculation included."""
    rows = []
    for contest in contests:
        ours = {row["prompts"]: row for row in contest["rows"] if row["way"] == contest["ours"]}
        plain = {
            row["prompts"]: row
            for row in contest["rows"]
            if row["way"].startswith("edgespec") and row["way"].endswith("plain")
        }
        over_plain = [
            ours[kind]["tokens_per_second"] / plain[kind]["tokens_per_second"] for kind in KINDS
        ]
        fastest = contest["fastest_opponents"]
        over_peer = [fastest[kind]["whole generation"]["ratio"] for kind in KINDS]
        for what, ratios in (("plain decoding", over_plain), ("the fastest peer", over_peer)):
            cells = " | ".join(f"{ratio:.2f}" for ratio in ratios)
            rows.append(f"| {contest['contest']} | {what} | {cells} |")
    return table(f"| weights | over | {' | '.join(KINDS)} |", rows)


PEERS = {
    "edgespec": "edgespec",
    "llama.cpp": "llama.cpp",
    "ik_llama.cpp": "ik_llama.cpp",
    "onnxruntime-genai": "ort-genai",
    "OpenVINO GenAI": "openvino",
}


def changed_texts_table(contests: list[dict[str, Any]]) -> list[str]:
    """The second table of README.md: how many greedy texts are others when speculation is on."""
    return table(
        f"| weights | texts | {' | '.join(PEERS)} |",
        (
            f"| {contest['contest']} | {texts_of(contest)} | "
            + " | ".join(changed_texts(contest, prefix) for prefix in PEERS.values())
            + " |"
            for contest in contests
        ),
    )


def texts_of(contest: dict[str, Any]) -> int:
    return next(row["texts"] for row in contest["rows"] if row["prompts"] == "all")


def changed_texts(contest: dict[str, Any], prefix: str) -> str:
    """The fewest and the most over a peer's speculative settings; empty if it did not run."""
    changed = [
        row["texts"] - row["texts_equal_to_own_plain"]
        for row in contest["rows"]
        if row["prompts"] == "all"
        and row["way"].startswith(prefix)
        and not row["way"].endswith("plain")
        and not row["way"].endswith("-last")
    ]
    if not changed:
        return ""
    least, most = min(changed), max(changed)
    return f"{least}" if least == most else f"{least} to {most}"


def wrapped(line: str) -> list[str]:
    """A line of prose as lines of a page's width; rows of tables stay as they are."""
    if line.startswith("|") or not line:
        return [line]
    return textwrap.wrap(line, 120, break_long_words=False, break_on_hyphens=False)


def insert(path: Path, name: str, lines: list[str]) -> None:
    """Writes lines between a page's markers of this name."""
    text = path.read_text(encoding="utf-8")
    prose = [part for line in lines for part in wrapped(line)]
    block = "\n".join([f"<!-- {name}:begin -->", *prose, f"<!-- {name}:end -->"])
    pattern = rf"<!-- {name}:begin -->.*?<!-- {name}:end -->"
    assert re.search(pattern, text, flags=re.DOTALL), f"{path} has no markers for the table {name}"
    path.write_text(re.sub(pattern, lambda _: block, text, flags=re.DOTALL), encoding="utf-8")


# Results that take a quiet machine for hours, with their tables and the field that holds the rows.
LATER_RESULTS = (
    ("compare_six_kinds", kinds_tables, "contests"),
    ("compare_six_kinds_avx2", kinds_tables, "contests"),
    ("compare_six_kinds_shipped", kinds_tables, "contests"),
    ("compare_gemma", kinds_tables, "contests"),
    ("compare_qwen", kinds_tables, "contests"),
    ("compare_long_prompts", first_token_tables, "contests"),
    ("peer_distance", distance_table, "rows"),
)


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
    for name, lines_of, part in LATER_RESULTS:
        if result_file(name).exists():
            found = result(name)
            insert(speed, name, [describe(found["environment"]), "", *lines_of(found[part])])
    shipped, all_peers = result("compare_six_kinds_shipped"), result("compare_six_kinds")
    sources = [
        f"speeds: {describe(shipped['environment'])}",
        f"changed texts: {describe(all_peers['environment'])}",
        "`benchmarks/compare_chat.py`",
    ]
    source = textwrap.wrap(f"({'; '.join(sources)})", 118, break_long_words=False)
    insert(ROOT / "README.md", "speed", speed_table(shipped["contests"]))
    insert(ROOT / "README.md", "changed", changed_texts_table(all_peers["contests"]))
    insert(ROOT / "docs" / "speed.md", "source", source)


if __name__ == "__main__":
    main()
