"""Claim: on other systems and processors libedgespec draws and decides as Python does here.

A program asks it for recorded rounds, texts and transcripts: built here, for ARM64 (make
native-arm64, run by qemu) and for Windows (make native-windows, run by Wine). What was not built is
skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgespec
from benchmarks.same_texts import prompts_for
from depth import deep
from kinds_of_pairs import READING, export_reading, export_recurrent, write_draft_vocabulary
from looking_large import cost_alike, find_of_target
from native_library import BUILD, RULES, runtime_library
from native_texts import pythons_texts

ROOT = Path(__file__).parents[2]
SHIPPED = Path(
    os.environ.get("EDGESPEC_SHIPPED", ROOT / "build")
)  # what `make demo demo-chat` exports
RUNTIMES = ROOT / "runtimes/js/node_modules/onnxruntime-node/bin/napi-v6"
WINE = "/usr/lib/wine/wine64"
ENDINGS = {"eos": 1, "stop": 2, "max_tokens": 3, "capacity": 4}
REQUESTS = (
    {"draft": 0},
    {"draft": 1, "gamma": 3},
    {"draft": 2, "gamma": 4},
    {"draft": 1, "gamma": 3, "repetition_penalty": 1.2, "min_tokens": 9},
    {"draft": 3, "gamma": 4},
)
DRAFTS = (False, "model", "lookup", "both")  # by the library's numbers
PROMPTS = ([5, 60, 7, 33], [12, 12, 40, 12, 12, 40, 12, 12], [200])
# An ARM64 processor with the dot product. ONNX Runtime looks it up in /proc/cpuinfo: the host's.
CPUINFO = """processor\t: 0
Features\t: fp asimd aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: 0xd0b
CPU revision\t: 1

"""


class Here:
    build = BUILD
    suffix = ""
    same_operators = True

    @staticmethod
    def missing() -> str | None:
        return None

    @staticmethod
    def runtime() -> Path:
        return runtime_library()

    @staticmethod
    def command(folder: Path) -> list[str]:
        return []

    @staticmethod
    def path(path: Path) -> str:
        """In hexadecimal, as the program takes it."""
        return str(path).encode().hex()


class Arm64(Here):
    build = Path(os.environ.get("EDGESPEC_NATIVE_ARM64", ROOT / "build/native-arm64"))
    same_operators = False  # of ONNX Runtime: their last bits move roundings to 8 bits

    @staticmethod
    def missing() -> str | None:
        return None if shutil.which("qemu-aarch64") else "needs qemu-user"

    @staticmethod
    def runtime() -> Path:
        return RUNTIMES / "linux/arm64/libonnxruntime.so.1"

    @staticmethod
    def command(folder: Path) -> list[str]:
        (folder / "proc").mkdir()
        (folder / "proc/cpuinfo").write_text(CPUINFO * (os.cpu_count() or 1))
        (folder / "lib").symlink_to("/usr/aarch64-linux-gnu/lib")
        return ["qemu-aarch64", "-cpu", "cortex-a76", "-L", str(folder)]


class Windows(Here):
    build = Path(os.environ.get("EDGESPEC_NATIVE_WINDOWS", ROOT / "build/native-windows"))
    suffix = ".exe"

    @staticmethod
    def missing() -> str | None:
        return None if Path(WINE).exists() else "needs wine64"

    @staticmethod
    def runtime() -> Path:
        return RUNTIMES / "win32/x64/onnxruntime.dll"

    @staticmethod
    def command(folder: Path) -> list[str]:
        return [WINE]

    @staticmethod
    def path(path: Path) -> str:
        return ("Z:" + str(path).replace("/", "\\")).encode().hex()


@pytest.fixture(scope="module", params=[Here, Arm64, Windows], ids=lambda one: one.__name__)
def platform(request):
    here = request.param
    if not (here.build / f"check_platform{here.suffix}").exists() or not here.runtime().exists():
        pytest.skip(f"{here.build} or ONNX Runtime for it is not there")
    if here.missing():
        pytest.skip(here.missing())
    return here


@pytest.fixture(scope="module")
def answers(platform, tmp_path_factory):
    """Asks the program: its answer to each line."""
    folder = tmp_path_factory.mktemp("platform")
    command = [*platform.command(folder), f"{platform.build}/check_platform{platform.suffix}"]
    environment = os.environ | {"WINEPREFIX": str(folder / "wine"), "WINEDEBUG": "-all"}
    if platform is Windows:
        environment.pop("LD_PRELOAD", None)  # of sanitizers, which are Linux's

    def ask(arguments: Sequence[object], lines: Sequence[str]) -> list[str]:
        result = subprocess.run(
            [*command, *map(str, arguments)],
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout.splitlines()

    return ask


def written(options: Mapping[str, Any]) -> str:
    """Options, of which some may have several values."""
    several = {
        name: value if isinstance(value, tuple) else (value,) for name, value in options.items()
    }
    return " ".join(f"{name}={value}" for name, values in several.items() for value in values)


def prompt_of(prompt: Sequence[int] | str) -> str:
    return f"x{prompt.encode().hex()}" if isinstance(prompt, str) else ",".join(map(str, prompt))


@dataclass(frozen=True)
class Text:
    """A text that the program made."""

    token_ids: list[int]
    ending: int
    rounds: int
    drafted: int
    accepted: int
    characters: str


def text_in(answer: str) -> Text:
    tokens, *numbers, characters = answer.split()
    return Text(tokens_in(tokens), *map(int, numbers), characters_in(characters))


def tokens_in(word: str) -> list[int]:
    return [] if word == "-" else list(map(int, word.split(",")))


def characters_in(word: str) -> str:
    return "" if word == "-" else bytes.fromhex(word).decode()


def test_every_recorded_decision_is_pythons(answers):
    recorded = json.loads((ROOT / "runtimes/js/tests/decisions.json").read_text("utf-8"))
    names = {
        name: re.sub(r"[A-Z]", lambda one: f"_{one[0].lower()}", name)
        for name in (name for options in recorded["options"] for name in options)
    }
    kinds = [
        written({names[name]: value for name, value in options.items()} | {"rule": RULES[rule]})
        for rule in ("token", "block", "coupled")
        for options in recorded["options"]
    ]
    lines = [f"{seed} {kinds[seed % len(kinds)]}" for seed in range(len(recorded["decisions"]))]
    sizes = [recorded[name] for name in ("vocabulary", "gamma", "prompt_tokens")]
    found = answers(["decisions", *sizes], lines)
    assert found == [",".join(map(str, decision)) for decision in recorded["decisions"]]


def test_greedy_texts_are_pythons(platform, answers, tiny_folder, tiny):
    prompts = (*PROMPTS, "Zwölf  naïve 世界 🙂\r\n")
    asked = [(prompt, {"max_new_tokens": 24} | given) for prompt in prompts for given in REQUESTS]
    check_texts(tiny, tiny_folder, asked, platform, answers)


def test_texts_of_a_batch_are_pythons(platform, answers, int8_folder, int8_pair, tmp_path):
    """Whether texts may share calls is measured there first."""
    folder = Path(shutil.copytree(int8_folder, tmp_path / "pair"))
    given = [
        {"draft": 0},
        {},
        {"temperature": 1, "seed": 3},
        {"draft": 2, "temperature": 0.7, "seed": 4},
    ]
    asked = [(prompt, {"max_new_tokens": 12} | one) for prompt in PROMPTS for one in given]
    check_texts(int8_pair, folder, asked, platform, answers, "batch")


def check_texts(pair, folder, asked, platform, answers, how="texts"):
    """Whether texts, with drafts and without, are Python's plain ones."""
    lines = [f"{prompt_of(prompt)} {written(given)}" for prompt, given in asked]
    found = answers([how, platform.path(folder), platform.path(platform.runtime())], lines)
    known = {}
    for (prompt, given), answer in zip(asked, found, strict=True):
        options = {name: value for name, value in given.items() if name not in ("draft", "gamma")}
        key = prompt_of(prompt), *options.items()
        if key not in known:
            known[key] = pair.generate(prompt, draft=False, **options)
        text, expected = text_in(answer), known[key]
        assert text.token_ids == expected.token_ids, given
        assert text.characters == (expected.text if isinstance(prompt, str) else ""), given
        assert text.ending == ENDINGS[expected.finish_reason]


WAYS = (
    {"gamma": 4},
    {"gamma": 5, "temperature": 0.8},
    {"gamma": 6, "temperature": 2.0, "rule": "token"},
    {"gamma": 3, "temperature": 0.7, "rule": "block", "top_p": 0.95},
)
# Their later ones rewind what the earlier ones left in the caches.
LONGER = [[5, 60, 7, 33, 8, 9, 12], [6], [*range(30, 70)], [*range(30, 50), 90]]


def other_tokenizer(folder: Path, int8_folder: Path) -> Path:
    pair = Path(shutil.copytree(int8_folder, folder / "pair"))
    write_draft_vocabulary(pair)
    return pair


KINDS: dict[str, Callable[[Path, Path], Path]] = {
    "recurrent, own head": lambda folder, _: export_recurrent("own head", folder),
    "recurrent, another model": lambda folder, _: export_recurrent("another model", folder),
    "another tokenizer": other_tokenizer,
    **{name: lambda folder, _, name=name: export_reading(name, folder) for name in READING},
}


BATCHED = [name for name in KINDS if name not in READING]  # what reads more has no batch


def often(kinds: Sequence[str]) -> list[Any]:
    """Without EDGESPEC_DEEP=1, the one that is made of a pair that other tests have."""
    return [
        kind if kind == "another tokenizer" else pytest.param(kind, marks=deep) for kind in kinds
    ]


@pytest.fixture(scope="module", params=often(list(KINDS)))
def measured(request, int8_folder, tmp_path_factory):
    """Pairs whose models keep or read something of their own."""
    return KINDS[request.param](tmp_path_factory.mktemp("kind"), int8_folder)


@pytest.fixture(scope="module")
def guessed(measured):
    """The same, whose costs are guessed alike everywhere, in a folder of a name beyond ASCII."""
    folder = shutil.copytree(measured, measured.parent / "Paar – 対")
    cost_alike(folder)
    find_of_target(folder, is_row_invariant=False)
    return folder


@pytest.mark.parametrize("how", ["texts", "saved"])
def test_texts_and_rounds_of_each_kind_of_pair_are_pythons(
    platform, answers, guessed, how, tmp_path
):
    """Undisturbed, and saved and loaded before each piece."""
    files = [platform.path(tmp_path / "gespeichert – 保存")] if how == "saved" else []
    lines, expected = [], []
    pair = edgespec.load(guessed, threads=1, allow_inexact=True)
    for given in WAYS:
        expected += pythons_texts(pair, LONGER, "model", given)[0]
        rule = RULES[given.get("rule")]
        options = {**given, "rule": rule, "draft": 1, "max_new_tokens": 40, "ignore_eos": 1}
        lines += [
            f"{prompt_of(prompt)} {written(options)} seed={seed}"
            for seed, prompt in enumerate(LONGER)
        ]
    found = answers([how, platform.path(guessed), platform.path(platform.runtime()), *files], lines)
    texts = list(map(text_in, found))
    assert [(text.token_ids, text.rounds, text.drafted, text.accepted) for text in texts] == [
        one[:4] for one in expected
    ]
    assert sum(text.accepted for text in texts) > 2


@pytest.mark.parametrize("measured", often(BATCHED), indirect=True)
def test_texts_of_a_batch_of_each_kind_are_pythons(platform, answers, measured, tmp_path):
    folder = Path(shutil.copytree(measured, tmp_path / "pair"))
    given = [{}, {"draft": 1, "gamma": 3}, {"draft": 1, "temperature": 0.8, "seed": 3}]
    asked = [(prompt, {"max_new_tokens": 12} | one) for prompt in LONGER for one in given]
    pair = edgespec.load(measured, threads=1)
    check_texts(pair, folder, asked, platform, answers, "batch")


FALLBACKS = {"temperature": (0.0, 0.4, 1.0), "min_logprob": -2.6, "max_compression": 4.5}
TRANSCRIPTS = (
    {"temperature": (0.0,)},
    {"temperature": (0.8,), "seed": 4},
    {**FALLBACKS, "seed": 2**40 + 1, "use_previous": 1},
)
DRAFTING = ({"draft": 1, "gamma": 3}, {"draft": 2, "gamma": 4}, {"draft": 3, "gamma": 2})


def sound():
    """A chirp in noise, silence, and noise: of several windows."""
    generator = np.random.default_rng(5)
    times = np.arange(round(3.3 * 16000)) / 16000
    chirp = 0.3 * np.sin(2 * np.pi * (300 + 700 * np.sin(4 * times)) * times)
    noise = [chirp + 0.05 * generator.standard_normal(len(times)), np.zeros(40_000)]
    return np.concatenate([*noise, 0.1 * generator.standard_normal(30_000)]).astype(np.float32)


@pytest.fixture(scope="module")
def transcripts(platform, answers, whisper_folder, tmp_path_factory):
    """Of each of `TRANSCRIPTS`, that without a draft, and that with each."""
    file = tmp_path_factory.mktemp("sounds") / "sound"
    sound().tofile(file)
    ways = [{**given, **how} for given in TRANSCRIPTS for how in ({"draft": 0}, *DRAFTING)]
    where = platform.path(whisper_folder), platform.path(platform.runtime())
    lines = [f"{platform.path(file)} {written(given)}" for given in ways]
    found = [transcript_in(answer) for answer in answers(["transcripts", *where], lines)]
    each = 1 + len(DRAFTING)
    return [found[first : first + each] for first in range(0, len(found), each)]


def test_no_draft_changes_a_transcript(transcripts):
    for plain, *drafted in transcripts:
        assert len(plain.segments) > 2
        for one in drafted:
            assert one.segments == plain.segments
            assert (one.language, one.seconds) == (plain.language, plain.seconds)
            assert one.accepted > 0


def test_transcripts_are_pythons(platform, transcripts, whisper_folder):
    """Segments to the bit, but for numbers of their windows that a last bit of a spectrogram moves:
    where ONNX Runtime's own operators, which a Whisper has, are those of this machine."""
    if not platform.same_operators:
        pytest.skip("ONNX Runtime's operators end in other bits there")
    pair = edgespec.load(whisper_folder, threads=1)
    for given, found in zip(TRANSCRIPTS, transcripts, strict=True):
        expected = pair.transcribe(sound(), draft=False, **given)
        assert (found[0].language, found[0].seconds) == (expected.language, expected.seconds)
        assert [numbers for _, numbers in found[0].segments] == [
            pytest.approx([one.logprob, one.compression, one.no_speech], abs=1e-5)
            for one in expected.segments
        ]
        assert [text for text, _ in found[0].segments] == [
            (one.start, one.end, one.temperature, [*one.token_ids], one.text)
            for one in expected.segments
        ]
        for drafting, one in zip(DRAFTING, found[1:], strict=True):
            draft = {**drafting, "draft": DRAFTS[drafting["draft"]]}
            stats = pair.transcribe(sound(), **given, **draft).stats
            counts = stats.target_calls, stats.drafted, stats.accepted
            assert (one.calls, one.drafted, one.accepted) == counts


@dataclass(frozen=True)
class Transcript:
    """A transcript that the program made; of each segment its text, and its window's numbers."""

    language: str
    seconds: float
    calls: int
    drafted: int
    accepted: int
    segments: list[tuple[tuple[object, ...], list[float]]]


def transcript_in(answer: str) -> Transcript:
    language, seconds, *words = answer.split()
    counts, words = map(int, words[:3]), words[3:]
    segments = [segment_in(words[first : first + 8]) for first in range(0, len(words), 8)]
    return Transcript(language, float(seconds), *counts, segments)


def segment_in(words: Sequence[str]) -> tuple[tuple[object, ...], list[float]]:
    start, end, temperature, *numbers = map(float, words[:6])
    return (start, end, temperature, tokens_in(words[6]), characters_in(words[7])), numbers


@deep
@pytest.mark.parametrize("name", ["smollm2", "en-de"])
def test_texts_of_the_shipped_pairs_are_pythons(platform, answers, name):
    """100 greedy prompts, each with a draft and without, and 200 seeds; of each kind no more than
    EDGESPEC_PLATFORM_TEXTS, since an emulated processor takes long for a token."""
    folder = SHIPPED / name
    if not folder.exists():
        pytest.skip(f"{folder} is not there: make demo demo-chat")
    pair, texts = (
        edgespec.load(folder, threads=1),
        int(os.environ.get("EDGESPEC_PLATFORM_TEXTS", 200)),
    )
    prompts = [pair.tokenizer.encode(text).ids for text in prompts_for(folder)]
    greedy = [
        (prompt, {"max_new_tokens": 24} | given)
        for prompt in prompts[:texts]
        for given in ({"draft": 0}, {})
    ]
    sampled = [
        (prompts[seed % len(prompts)], {"max_new_tokens": 12, "temperature": 1, "seed": seed})
        for seed in range(texts)
    ]
    check_texts(pair, folder, greedy + sampled, platform, answers)
