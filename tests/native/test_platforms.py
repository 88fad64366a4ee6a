"""Claim: on other systems and processors libedgespec draws and decides as Python does here.

A program asks it for recorded rounds and for texts: built here, for ARM64 (make native-arm64, run
by qemu) and for Windows (make native-windows, run by Wine). What was not built is skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import edgespec
from benchmarks.same_texts import prompts_for
from depth import deep
from native_library import BUILD, RULES, runtime_library

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
        return str(path)


class Arm64(Here):
    build = Path(os.environ.get("EDGESPEC_NATIVE_ARM64", ROOT / "build/native-arm64"))

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
        return "Z:" + str(path).replace("/", "\\")


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


def written(options: dict[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items())


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
    asked = [(prompt, {"max_new_tokens": 24} | given) for prompt in PROMPTS for given in REQUESTS]
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
    lines = [f"{','.join(map(str, prompt))} {written(given)}" for prompt, given in asked]
    found = answers([how, platform.path(folder), platform.path(platform.runtime())], lines)
    known = {}
    for (prompt, given), answer in zip(asked, found, strict=True):
        options = {name: value for name, value in given.items() if name not in ("draft", "gamma")}
        key = *prompt, *options.items()
        if key not in known:
            known[key] = pair.generate(prompt, draft=False, **options)
        tokens, ending = answer.split()
        assert list(map(int, tokens.split(","))) == known[key].token_ids, given
        assert int(ending) == ENDINGS[known[key].finish_reason]


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
