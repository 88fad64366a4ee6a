"""Claim: the commands do what the library does; text is on stdout, everything else on stderr.

What goes wrong is in test_bad_input.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import edgespec
from checkpoints import byte_tokenizer, write_llama
from command import EDGESPEC, run
from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.cli.main import SECTIONS, main
from edgespec.device.kernels import installed_kernels, missing_kernels
from edgespec.library.kept_pairs import bytes_of, size

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
from make_help import HELP, REGENERATE, help_text

FP32 = ("--target-format", "fp32")
PROMPT = "The file could not be opened because it does not exist."


def text_of(folder: Path, *options: object) -> str:
    return run("generate", folder, PROMPT, *options).stdout


def json_of(folder: Path, *options: object) -> dict:
    return json.loads(text_of(folder, "--json", *options))


@pytest.fixture(scope="module")
def translation(pair) -> edgespec.Generation:
    return pair.generate(PROMPT, gamma=4)


# --- from a checkpoint to a text -----------------------------------------------------------------


def test_export_generate_inspect(tiny_checkpoints, tmp_path):
    folder = tmp_path / "pair"
    formats = (*FP32, "--draft-format", "fp32")
    exported = run("export", *tiny_checkpoints, "-o", folder, *formats, "--threads", 1)
    assert exported.stdout == ""
    least = read_manifest(folder).target.variants["fp32"].row_invariance.min_rows
    assert exported.stderr.splitlines() == [
        f"target: {tiny_checkpoints[0]}",
        f"draft: {tiny_checkpoints[1]}",
        f"target fp32: row-invariant, calls of {least} to 17 positions",
        f"{folder}: ready, {size(bytes_of(folder))}; try: edgespec generate {folder} PROMPT",
    ]
    assert run("generate", folder, "abc").stdout
    described = run("inspect", folder).stdout
    for word in (*tiny_checkpoints, "fp32", "row-invariant, bitwise", "MB", "decoder.onnx"):
        assert str(word) in described


def test_export_without_a_draft_speculates_by_prompt_lookup(tiny_checkpoints, tmp_path):
    run("export", tiny_checkpoints[0], "-o", tmp_path / "pair", *FP32)
    assert "draft: none; prompt lookup" in run("inspect", tmp_path / "pair").stdout
    result = run("generate", tmp_path / "pair", "ab" * 9, "--gamma", 4, "--json")
    assert json.loads(result.stdout)["stats"]["drafted"] > 0


def test_a_cache_of_fewer_bits_is_a_variant_that_can_be_asked_for(tiny_checkpoints, tmp_path):
    formats = (*FP32, "--cache-format", "fp32", "--cache-format", "int8")
    folder = tmp_path / "pair"
    said = run("export", *tiny_checkpoints, "-o", folder, *formats, "--threads", 1).stderr
    assert "target fp32-cache-int8: row-invariant" in said
    assert "fp32-cache-int8: KL " in said
    assert "MB, int8 cache" in run("inspect", folder).stdout
    asked = ("--target-format", "fp32-cache-int8", "-n", 12)
    plain = text_of(folder, *asked, "--no-draft")
    assert text_of(folder, *asked, "--gamma", 4) == plain


def test_an_unknown_cache_format_is_one_line(tiny_checkpoints, tmp_path):
    arguments = (tiny_checkpoints[0], "-o", tmp_path / "pair", "--cache-format", "int3")
    said = run("export", *arguments, code=2).stderr
    assert said == "edgespec: no cache format 'int3'; there is: fp32, fp16, int8, int8-bf16\n"


def test_inspect_as_json_is_the_manifest(tiny_folder):
    data = json.loads(run("inspect", tiny_folder, "--json").stdout)
    assert data.pop("measured")["fp32"]["is_row_invariant"]
    assert data.pop("profile") is None
    assert data.pop("made_for") is None  # any machine
    assert data.pop("memory")["texts"] == 1
    kernels = installed_kernels()
    assert data.pop("kernels") == (kernels and str(kernels))
    assert data.pop("kernels_missing") == missing_kernels()
    assert data.pop("chat_written_by") is None  # it is no chat model
    manifest = json.loads((tiny_folder / "edgespec.json").read_text())
    del manifest["digest"]  # of the file
    assert data == manifest


def test_inspect_can_measure_this_machine(tiny_folder):
    data = json.loads(run("inspect", tiny_folder, "--json", "--measure", "--threads", 1).stdout)
    recorded = data["target"]["variants"]["fp32"]["row_invariance"]  # by export, with as many
    assert data["measured"]["fp32"] == recorded
    measured = run("inspect", tiny_folder, "--measure", "--threads", 1).stdout
    assert "    on this machine: row-invariant" in measured
    longer = run("inspect", tiny_folder, "--measure-long", "--threads", 1).stdout
    assert "    on this machine: row-invariant" in longer


# --- the prompt ----------------------------------------------------------------------------------


def test_a_prompt_comes_from_the_argument_a_file_or_standard_input(
    pair_folder, translation, tmp_path
):
    (tmp_path / "prompt.txt").write_text(f"{PROMPT}\n", encoding="utf-8")
    expected = f"{translation.text}\n"
    assert text_of(pair_folder) == expected
    assert run("generate", pair_folder, "--file", tmp_path / "prompt.txt").stdout == expected
    assert run("generate", pair_folder, input=f"{PROMPT}\n").stdout == expected


def test_a_hyphen_is_standard_input_and_a_mark_at_the_beginning_of_a_file_no_text(
    pair_folder, translation, tmp_path
):
    (tmp_path / "prompt.txt").write_text(PROMPT, encoding="utf-8-sig")
    expected = f"{translation.text}\n"
    assert run("generate", pair_folder, "-", input=PROMPT).stdout == expected
    assert run("generate", pair_folder, "--file", tmp_path / "prompt.txt").stdout == expected


@one_in(2)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that Linux has")
@pytest.mark.parametrize("command", [("inspect",), ("generate", PROMPT)], ids=str)
@pytest.mark.parametrize("unbuffered", ["", "1"])  # Python takes an empty one for none
def test_a_full_disk_after_standard_output_is_one_line(pair_folder, command, unbuffered):
    name, *rest = command
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [EDGESPEC, name, pair_folder, *rest],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr == "edgespec: standard output: No space left on device\n"


def test_only_one_prompt_is_taken(pair_folder, tmp_path):
    (tmp_path / "prompt.txt").write_text(PROMPT)
    result = run("generate", pair_folder, PROMPT, "--file", tmp_path / "prompt.txt", code=2)
    assert "give one" in result.stderr


@pytest.mark.parametrize("name", ["nosuch.txt", "."])
def test_a_prompt_file_that_cannot_be_read_is_named(pair_folder, tmp_path, name):
    result = run("generate", pair_folder, "--file", tmp_path / name, code=2)
    assert str(tmp_path / name) in result.stderr


def test_a_prompt_that_is_not_utf_8_is_refused(pair_folder, tmp_path):
    (tmp_path / "prompt.txt").write_bytes(b"\xff")
    result = run("generate", pair_folder, "--file", tmp_path / "prompt.txt", code=2)
    assert "not UTF-8" in result.stderr


def test_chat_puts_the_chat_format_around_the_prompt(tmp_path):
    template = "<{{ messages[0].content }}>"
    target = write_llama(
        tmp_path / "target", vocab_size=272, layers=1, tokenizer=byte_tokenizer(272)
    )
    (target / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    run("export", target, "-o", tmp_path / "pair", *FP32)
    options = ["--no-draft", "-n", "20", "--ignore-eos", "--json"]
    chat = json.loads(run("generate", tmp_path / "pair", "hi", "--chat", *options).stdout)
    raw = json.loads(run("generate", tmp_path / "pair", "<hi>", "--no-chat", *options).stdout)
    usual = json.loads(run("generate", tmp_path / "pair", "hi", *options).stdout)
    assert chat["token_ids"] == raw["token_ids"] == usual["token_ids"]
    assert chat["prompt_tokens"] == len("<hi>")


def test_chat_needs_a_model_that_chats(pair_folder):
    assert "no chat format" in run("generate", pair_folder, PROMPT, "--chat", code=2).stderr


# --- the text ------------------------------------------------------------------------------------


def test_the_streamed_text_is_the_text_in_the_json(pair_folder, translation):
    for options in ([], ["-t", 1, "--seed", 7]):
        assert text_of(pair_folder, *options) == json_of(pair_folder, *options)["text"] + "\n"
    assert json_of(pair_folder)["text"] == translation.text


@one_in(2)
@pytest.mark.parametrize(
    "draft", [["--no-draft"], ["--draft", "lookup"], ["--draft", "model"], ["--draft", "both"]]
)
def test_greedy_text_does_not_depend_on_the_draft(pair_folder, translation, draft):
    data = json_of(pair_folder, *draft)
    assert data["text"] == translation.text
    assert data["token_ids"] == translation.token_ids


@one_in(2)
@pytest.mark.parametrize("draft", [["--draft", "lookup"], ["--draft", "model"], ["--gamma", 2]])
def test_sampled_text_of_a_seed_does_not_depend_on_the_draft(pair_folder, draft):
    options = ["-t", "1.2", "--seed", 5]
    alone = json_of(pair_folder, *options, "--no-draft")
    found = json_of(pair_folder, *options, *draft)
    assert found["token_ids"] == alone["token_ids"]
    assert found["settings"]["rule"] == alone["settings"]["rule"] == "coupled"
    assert found["token_ids"] != json_of(pair_folder, *options, "--rule", "block")["token_ids"]


def test_no_draft_is_one_token_a_call(pair_folder):
    stats = json_of(pair_folder, "--no-draft")["stats"]
    assert stats["drafted"] == stats["accepted"] == 0
    assert stats["tokens"] == stats["target_calls"]


def test_a_seed_draws_the_same_text_again(pair_folder):
    options = ["-t", "1.5", "-n", "20"]
    drawn = json_of(pair_folder, *options)
    assert json_of(pair_folder, *options, "--seed", drawn["seed"])["text"] == drawn["text"]
    assert json_of(pair_folder, *options, "--seed", 1)["seed"] == 1


def test_max_new_tokens_and_stop_end_the_text(pair_folder, translation):
    assert json_of(pair_folder, "-n", "3")["token_ids"] == translation.token_ids[:3]
    word = translation.text.split()[-2]
    data = json_of(pair_folder, "--stop", "never there", "--stop", word)
    assert data["text"] == translation.text.partition(word)[0]
    assert data["finish_reason"] == "stop"


def test_ignore_eos_generates_after_the_end_of_text_token(pair_folder, translation):
    longer = json_of(pair_folder, "--ignore-eos", "-n", len(translation.token_ids) + 5)
    assert len(longer["token_ids"]) == len(translation.token_ids) + 5


# --- what is shown -------------------------------------------------------------------------------


def test_the_json_object_has_these_keys(pair_folder):
    data = json_of(pair_folder)
    assert list(data) == [
        "text",
        "token_ids",
        "finish_reason",
        "prompt_tokens",
        "seed",
        "settings",
        "stats",
        "kernels",
        "kernels_missing",
    ]
    assert json_of(pair_folder, "--gamma", 4)["settings"] == {
        "target_format": "fp32",
        "provider": "cpu",
        "draft": "both",
        "draft_format": "fp32",
        "draft_provider": "cpu",
        "gamma": 4,
        "rule": "token",
    }
    assert list(data["stats"]) == [
        "tokens",
        "target_calls",
        "drafted",
        "evaluated",
        "accepted",
        "evaluated_at",
        "accepted_at",
        "accepted_runs",
        "candidates",
        "committed",
        "seconds",
        "first_token_seconds",
        "first_tokens",
        "target_seconds",
        "draft_seconds",
        "acceptance_rate",
        "acceptance_by_position",
        "tokens_per_target_call",
        "tokens_per_second",
        "decode_tokens_per_second",
        "loop_share",
    ]
    assert len(json_of(pair_folder, "--logprobs")["logprobs"]) == len(data["token_ids"])
    top = json_of(pair_folder, "--logprobs", "--top-logprobs", 3)["top_logprobs"]
    assert [len(tokens) for tokens in top] == [3] * len(data["token_ids"])


def test_json_is_one_line_of_ascii(pair_folder):
    result = run("generate", pair_folder, "You can change the size of the window.", "--json")
    assert result.stdout.count("\n") == 1
    text = json.loads(result.stdout)["text"]
    assert not text.isascii()
    assert result.stdout.isascii()


def test_stats_are_on_stderr_and_the_text_alone_on_stdout(pair_folder, translation):
    result = run("generate", pair_folder, PROMPT, "--stats", "--gamma", 4)
    assert result.stdout == f"{translation.text}\n"
    stats = translation.stats
    speed, calls, acceptance, settings, kernels, time = result.stderr.splitlines()
    assert speed.startswith(f"{stats.tokens} tokens in ")
    assert speed.endswith("ended by eos")
    assert calls.startswith(f"{stats.target_calls} target calls: ")
    assert acceptance.startswith(f"accepted {stats.accepted} of {stats.evaluated} drafted tokens")
    assert acceptance.count("%") == 1 + len(stats.acceptance_by_position)
    assert settings == "target fp32, draft both fp32, γ 4, token rule"
    assert kernels.startswith("kernels: ")
    assert time.startswith("time: target ")
    assert run("generate", pair_folder, PROMPT).stderr == ""


def test_stats_of_plain_decoding_do_not_speak_of_acceptance(pair_folder):
    stderr = run("generate", pair_folder, PROMPT, "--stats", "--no-draft").stderr
    assert "accepted" not in stderr
    assert "target fp32, no draft" in stderr


def test_drafted_tokens_are_coloured_for_a_terminal_only(pair_folder, translation):
    assert text_of(pair_folder, "--show-draft") == f"{translation.text}\n"
    bare = run("generate", pair_folder, PROMPT, "--show-draft", color=True, env={"NO_COLOR": "1"})
    assert bare.stdout == f"{translation.text}\n"
    options = ["--show-draft", "--gamma", 4]
    coloured = run("generate", pair_folder, PROMPT, *options, color=True).stdout
    green, reset = "\x1b[32m", "\x1b[0m"
    assert coloured.replace(green, "").replace(reset, "") == f"{translation.text}\n"
    assert 0 < coloured.count(green) <= translation.stats.accepted
    assert "\x1b" not in run("generate", pair_folder, PROMPT, color=True).stdout


# --- real processes ------------------------------------------------------------------------------


def test_text_streams_through_a_pipe_from_standard_input(pair_folder, translation):
    command = [EDGESPEC, "generate", pair_folder, "--show-draft", "--stats"]
    result = subprocess.run(
        command, input=PROMPT.encode(), capture_output=True, check=True, timeout=60
    )
    assert result.stdout.decode() == f"{translation.text}\n"
    assert b"tokens/s" in result.stderr
    assert b"\x1b" not in result.stdout + result.stderr


@one_in(2)
@pytest.mark.skipif(os.name != "posix", reason="a shell's pipes")
@pytest.mark.parametrize("options", [["--ignore-eos"], ["--json"]])
def test_a_reader_that_goes_away_ends_the_command_quietly(pair_folder, options):
    process = subprocess.Popen(
        [EDGESPEC, "generate", pair_folder, PROMPT, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 1


def test_the_option_version_prints_the_package_s_version(tmp_path):
    result = subprocess.run(
        [EDGESPEC, "--version"], capture_output=True, check=True, text=True, cwd=tmp_path
    )
    assert result.stdout == f"edgespec, version {edgespec.__version__}\n"


# --- help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [(), *((name,) for name in sorted(main.commands))], ids=str)
def test_h_is_help_everywhere(command):
    short, long = run(*command, "-h").stdout, run(*command, "--help").stdout
    assert short == long
    assert short.startswith("Usage: ")


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_option_says_what_it_does(name):
    for parameter in main.commands[name].params:
        if parameter.param_type_name == "option" and not parameter.show_default:
            assert parameter.help, parameter.name


def test_without_a_command_the_whole_help_is_shown():
    assert run(code=2).stderr.rstrip() == run("--help").stdout.rstrip()


def test_each_command_is_in_one_section_of_the_help_and_has_an_example():
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(main.commands)
    for name, command in main.commands.items():
        assert f"      edgespec {name}" in command.help, name
    shown = run("--help").stdout
    assert all(f"\n{title}:\n" in shown for title in SECTIONS)


def test_docs_help_is_what_the_commands_say():
    assert HELP.read_text(encoding="utf-8") == help_text(), f"out of date; run: {REGENERATE}"
