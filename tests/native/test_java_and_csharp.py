"""Claim: the bindings for Java and C# make Python's texts, and turn misuse into exceptions."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import edgespec
from native_library import LIBRARY, runtime_library

NATIVE = Path(__file__).parents[2] / "runtimes" / "native"
PROGRAMS = Path(__file__).parent / "programs"
JAR = LIBRARY.parent / "java" / "edgespec.jar"
# Java's names are C#'s in camel case, and so are the values of enumerations.
REQUESTS = (
    {"draft": "MODEL", "maxNewTokens": 24},
    {"draft": "MODEL", "rule": "TOKEN", "temperature": 0.8, "topP": 0.9, "gamma": 3, "seed": 3},
    {
        "draft": "MODEL",
        "rule": "BLOCK",
        "gamma": 4,
        "temperature": 1.2,
        "topK": 20,
        "minP": 0.01,
        "seed": 4,
    },
    {"draft": "MODEL", "temperature": 1.0, "seed": 2**64 - 1, "repetitionPenalty": 1.1},
    {"draft": "LOOKUP", "presencePenalty": 0.3, "frequencyPenalty": 0.2, "logprobs": "true"},
    {"draft": "NONE", "temperature": 0.9, "topNSigma": 1.5, "seed": 6, "logitBias": "7:2.5"},
    {"draft": "NONE", "temperature": 1.5, "xtcProbability": 0.5, "xtcThreshold": 0.05, "seed": 7},
    {"draft": "NONE", "minTokens": 9, "maxNewTokens": 40},
    {"draft": "NONE", "ignoreEos": "true", "maxNewTokens": 40},
)
PROMPT = [5, 60, 7, 33]
ENDINGS = ("eos", "stop", "max_tokens", "capacity")


class Java:
    """Programs and examples in Java, compiled to classes."""

    suffix = ".java"
    endings = ("END_OF_TEXT", "STOPPED", "MAX_TOKENS", "FULL")

    @staticmethod
    def written(name: str, value: object) -> str:
        return f"{name}={value}"

    @staticmethod
    def compiled(sources: list[Path], folder: Path) -> None:
        run("javac", "-Xlint:all", "-Werror", "-cp", JAR, "-d", folder, *sources)

    @staticmethod
    def command(name: str, folder: Path) -> list[str]:
        java = f"-Djava.library.path={JAR.parent}"
        return ["java", "-Xcheck:jni", "-Xmx256m", java, "-cp", f"{JAR}:{folder}", name]


class CSharp:
    """The same in C#, which the test compiles with the binding."""

    suffix = ".cs"
    endings = ("EndOfText", "Stopped", "MaxTokens", "Full")

    @staticmethod
    def written(name: str, value: object) -> str:
        if name in ("draft", "rule"):
            value = str(value).capitalize()
        return f"{name[0].upper()}{name[1:]}={value}"

    @staticmethod
    def compiled(sources: list[Path], folder: Path) -> None:
        binding = folder / "Edgespec.dll"
        mcs = ("mcs", "-warnaserror", "-langversion:7.2")
        run(*mcs, "-target:library", f"-out:{binding}", *(NATIVE / "csharp").glob("*.cs"))
        for source in sources:
            run(*mcs, f"-out:{folder / source.stem}.exe", f"-r:{binding}", source)

    @staticmethod
    def command(name: str, folder: Path) -> list[str]:
        return ["mono", f"{folder / name}.exe"]


@pytest.fixture(scope="module", params=[Java, CSharp])
def language(request, built):
    if request.param is Java and not (JAR.exists() and shutil.which("java")):
        pytest.skip("needs Java when make native runs")
    if request.param is CSharp and not shutil.which("mcs"):
        pytest.skip("needs mono-mcs and mono-runtime")
    return request.param


@pytest.fixture(scope="module")
def program(language, tmp_path_factory):
    """The command of a program of this language, by its name."""
    folder = tmp_path_factory.mktemp("programs")
    sources = [*PROGRAMS.glob("*"), *(NATIVE / "examples").glob("*")]
    language.compiled([one for one in sources if one.suffix == language.suffix], folder)
    return lambda name: language.command(name, folder)


def run(*command: str | Path, lines: str | None = None) -> str:
    """What a program prints; its errors are shown where it fails."""
    libraries = {"LD_LIBRARY_PATH": str(LIBRARY.parent), "LC_ALL": "C.UTF-8"}
    result = subprocess.run(
        list(map(str, command)),
        input=lines,
        capture_output=True,
        text=True,
        env=os.environ | libraries,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "WARNING" not in result.stdout + result.stderr, "-Xcheck:jni warns"
    return result.stdout


def python_options(given):
    """The options of a request as Python has them."""
    names = {"draft": "draft", "rule": "rule"}
    options = {}
    for name, value in given.items():
        python = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
        if name in names:
            value = {"NONE": False}.get(value, str(value).lower())
        elif name == "logitBias":
            token, bias = value.split(":")
            value = {int(token): float(bias)}
        elif value == "true":
            value = True
        options[python] = value
    return options


def line_of(language, given):
    written = (language.written(name, value) for name, value in given.items())
    return " ".join([",".join(map(str, PROMPT)), *written])


def test_their_texts_are_pythons(language, program, tiny_folder, tiny):
    lines = "\n".join(line_of(language, given) for given in REQUESTS)
    answers = run(*program("Requests"), tiny_folder, runtime_library(), lines=lines).splitlines()
    for given, answer in zip(REQUESTS, answers, strict=True):
        tokens, ending, seed, logprobs = answer.split(" ")
        options = python_options(given)
        if options["draft"]:
            options.setdefault("gamma", 4)
        expected = tiny.generate(PROMPT, **options)
        assert list(map(int, tokens.split(","))) == expected.token_ids, given
        assert ending == language.endings[ENDINGS.index(expected.finish_reason)]
        assert int(seed) == given.get("seed", int(seed))
        if "logprobs" in given:
            found = list(map(float, logprobs.split(",")))
            assert found == pytest.approx(expected.logprobs, rel=1e-12, abs=1e-12)
        else:
            assert logprobs == ""


def test_a_text_ends_behind_a_stop_token(language, program, tiny_folder, tiny):
    whole = tiny.generate(PROMPT, draft=False, max_new_tokens=8, ignore_eos=True).token_ids
    line = line_of(language, {"stopTokens": f"9,{whole[4]}"})
    answer = run(*program("Requests"), tiny_folder, runtime_library(), lines=line)
    tokens, ending, *_ = answer.split(" ")
    assert tokens == ",".join(map(str, whole[:5]))
    assert ending == language.endings[ENDINGS.index("stop")]


def test_their_texts_at_once_are_pythons(language, program, int8_folder, int8_pair):
    prompts = [[5, 60, 7, 33], [9, 8], [5, 60, 7, 34, 35, 36]]
    written = [",".join(map(str, prompt)) for prompt in prompts]
    output = run(*program("Together"), int8_folder, runtime_library(), *written)
    for line in output.splitlines():
        number, tokens, ending, seed = line.split(" ")
        options = {"draft": "model", "gamma": 4, "temperature": 1.0, "max_new_tokens": 20}
        expected = int8_pair.generate(prompts[int(number)], seed=7, **options)
        made = ",".join(map(str, expected.token_ids))
        assert seed == "7"
        if number == "1":  # it was taken out
            assert made.startswith(tokens)
            assert ending.lower() == "cancelled"
        else:
            assert tokens == made
            assert ending == language.endings[ENDINGS.index(expected.finish_reason)]
    assert len(output.splitlines()) == len(prompts)


def test_their_transcripts_are_pythons(language, program, whisper_folder, tmp_path):
    pair = edgespec.load(whisper_folder, threads=1)
    noise = np.random.default_rng(6).standard_normal(5 * 16000)
    sound = (0.1 * noise).astype("<f4")
    (tmp_path / "sound").write_bytes(sound.tobytes())
    given = {"task": "translate", "timestamps": False, "use_previous": True, "prompt": "Names"}
    given |= {"temperature": (0.0, 0.5), "no_speech": None, "min_logprob": -2.5}
    given |= {"max_compression": 4.5, "draft": "model", "gamma": 3, "seed": 5, "language": "de"}
    expected = []
    for options in ({"draft": False}, given):
        made = pair.transcribe(sound, **options)
        assert made.segments
        expected += [
            (one.start, one.end, pytest.approx(one.logprob, abs=1e-5), list(one.token_ids))
            for one in made.segments
        ]
        expected.append((made.language, made.seconds))
    output = run(*program("Transcripts"), whisper_folder, runtime_library(), tmp_path / "sound")
    *lines, dropped, refused = output.splitlines()
    found, drafted = [], []
    for words in map(str.split, lines):
        if len(words) == 3:
            found.append((words[0], float(words[1])))
            drafted.append(int(words[2]))
        else:
            found.append((*map(float, words[:3]), list(map(int, words[3].split(",")))))
    assert found == expected
    assert drafted[1] == made.stats.drafted > 0
    assert (dropped, refused) == ("dropped", "language is 'xx'; this model knows en, de, fr")


def test_their_examples_transcribe_as_python_does(program, whisper_folder, tmp_path):
    noise = np.random.default_rng(6).standard_normal(5 * 16000)
    sound = (0.1 * noise).astype("<f4")
    (tmp_path / "sound").write_bytes(sound.tobytes())
    segments = edgespec.load(whisper_folder).transcribe(sound, draft=False).segments
    expected = "".join(f"{one.start:.2f} {one.end:.2f} {one.text}\n" for one in segments)
    found = run(*program("Transcribe"), whisper_folder, runtime_library(), tmp_path / "sound")
    assert found == expected


def test_misuse_is_an_exception_and_texts_are_kept(program, tiny_folder, tmp_path):
    output = run(*program("Misuse"), tiny_folder, runtime_library(), tmp_path / "session")
    assert output.splitlines()[-1] == "the end"


def test_their_examples_answer_as_python_does(program, chat_folder):
    pair = edgespec.load(chat_folder)  # with as many threads as the program
    options = {"max_new_tokens": 64, "draft": False}
    answer = pair.generate([{"role": "user", "content": "Hi"}], **options).text
    goes_on = pair.generate("Hi", chat=False, **options).text
    assert run(*program("Chat"), chat_folder, runtime_library(), "Hi") == answer
    assert run(*program("Translate"), chat_folder, runtime_library(), "Hi") == goes_on
