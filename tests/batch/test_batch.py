"""Claim: each line of a batch has the answer that it has alone, once, whatever interrupts."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_files import lines_of, messages_of, texts_of, written
from command import EDGESPEC, run
from depth import one_in
from edgespec.batch.result_lines import errors_path, partial_path, result_lines

PROMPTS = ["ab" * 4, "The quick", "x", "once upon", "zz top"]
GREEDY = {"temperature": 0, "max_tokens": 8}
FAST = ("--threads", 1)


def requests(folder: Path, count: int = len(PROMPTS)) -> Path:
    prompts = [PROMPTS[index % len(PROMPTS)] for index in range(count)]
    return written(folder / "in.jsonl", *({"prompt": prompt, **GREEDY} for prompt in prompts))


@pytest.fixture(scope="module")
def alone(tiny) -> dict[str, str]:
    """Each prompt's text, alone and without a draft."""
    return {prompt: tiny.generate(prompt, max_new_tokens=8, draft=False).text for prompt in PROMPTS}


def expected(alone: dict[str, str], count: int) -> dict[str, str]:
    return {f"line-{n + 1}": alone[PROMPTS[n % len(PROMPTS)]] for n in range(count)}


# --- answers --------------------------------------------------------------------------------------


def test_each_line_has_the_text_that_it_has_alone_in_the_input_s_order(
    tiny_folder, alone, tmp_path
):
    out = tmp_path / "out.jsonl"
    run("batch", tiny_folder, requests(tmp_path), "-o", out, *FAST)
    assert texts_of(out) == expected(alone, len(PROMPTS))
    assert [line["custom_id"] for line in lines_of(out)] == list(expected(alone, len(PROMPTS)))
    assert not partial_path(out).exists()
    assert not errors_path(out).exists()


def test_openai_s_batch_format_is_accepted_and_returned(tiny_folder, alone, tmp_path):
    line = {
        "custom_id": "mine",
        "method": "POST",
        "url": "/v1/completions",
        "body": {"model": "any", "prompt": "x", **GREEDY},
    }
    out = tmp_path / "out.jsonl"
    run("batch", tiny_folder, written(tmp_path / "in", line), "-o", out, *FAST)
    (answer,) = lines_of(out)
    assert answer.keys() == {"id", "custom_id", "response", "error"}
    assert answer["custom_id"] == "mine"
    assert answer["error"] is None
    assert answer["response"]["status_code"] == 200
    body = answer["response"]["body"]
    assert body["object"] == "text_completion"
    assert body["choices"][0]["text"] == alone["x"]
    assert body["usage"]["completion_tokens"] == 8


def test_a_file_made_for_openai_s_batches_gives_what_its_client_reads(chat_folder, tmp_path):
    """Two files, as its Batch API gives them: answers, and requests that failed."""
    from openai.types.chat import ChatCompletion

    hi = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    common = {"method": "POST", "url": "/v1/chat/completions"}
    fields = [
        {"max_completion_tokens": 4},
        {"max_tokens": 4, "seed": 5, "temperature": 0.7, "top_p": 0.9, "stop": ["zz"]},
        {"max_tokens": 4, "logprobs": True, "top_logprobs": 2, "user": "someone"},
        {"max_tokens": -4},
    ]
    lines = [
        {
            "custom_id": f"request-{number}",
            **common,
            "body": {"model": "gpt-4o-mini", "messages": hi, **field},
        }
        for number, field in enumerate(fields, start=1)
    ]
    out = tmp_path / "out.jsonl"
    run("batch", chat_folder, written(tmp_path / "in", *lines), "-o", out, *FAST)
    answers = lines_of(out)
    assert [answer["custom_id"] for answer in answers] == ["request-1", "request-2", "request-3"]
    for answer in answers:
        assert answer["error"] is None
        response = answer["response"]
        assert response.keys() == {"status_code", "request_id", "body"}
        body = ChatCompletion.model_validate(response["body"], strict=True)
        assert body.choices[0].message.role == "assistant"
        assert body.usage is not None
        assert 1 <= body.usage.completion_tokens <= 4
    (failure,) = lines_of(errors_path(out))
    assert (failure["custom_id"], failure["error"]) == ("request-4", None)
    assert failure["response"]["status_code"] == 400
    assert "-4" in failure["response"]["body"]["error"]["message"]


def test_a_refused_line_keeps_its_name(tiny_folder, tmp_path):
    line = {"custom_id": "mine", "method": "POST", "url": "/v1/embeddings", "body": {}}
    out = tmp_path / "out.jsonl"
    run("batch", tiny_folder, written(tmp_path / "in", line), "-o", out, *FAST)
    assert messages_of(errors_path(out)).keys() == {"mine"}


def test_messages_are_answered_in_the_model_s_chat_format(chat_folder, tmp_path):
    import edgespec

    messages = [{"role": "user", "content": "hi"}]
    out = tmp_path / "out.jsonl"
    source = written(tmp_path / "in", {"messages": messages, **GREEDY})
    run("batch", chat_folder, source, "-o", out, *FAST)
    message = lines_of(out)[0]["response"]["body"]["choices"][0]["message"]
    pair = edgespec.load(chat_folder, threads=1)
    assert message["content"] == pair.generate(messages, max_new_tokens=8, draft=False).text


def test_in_any_order_each_answer_is_there_once(tiny_folder, alone, tmp_path):
    out = tmp_path / "out.jsonl"
    run("batch", tiny_folder, requests(tmp_path, 20), "-o", out, "--any-order", *FAST)
    assert texts_of(out) == expected(alone, 20)


def test_options_count_where_a_line_says_nothing(tiny_folder, tiny, tmp_path):
    out = tmp_path / "out.jsonl"
    source = written(tmp_path / "in", {"prompt": "x"}, {"prompt": "x", "max_tokens": 3})
    run("batch", tiny_folder, source, "-o", out, "--greedy", "-n", 5, *FAST)
    texts = texts_of(out)
    assert texts["line-1"] == tiny.generate("x", max_new_tokens=5).text
    assert texts["line-2"] == tiny.generate("x", max_new_tokens=3).text


def test_with_a_seed_each_line_has_a_seed_of_its_own(tiny_folder, tiny, tmp_path):
    out = tmp_path / "out.jsonl"
    source = written(tmp_path / "in", *[{"prompt": "x", "temperature": 1}] * 3)
    run("batch", tiny_folder, source, "-o", out, "--seed", 7, "-n", 8, *FAST)
    for number, text in enumerate(texts_of(out).values()):
        plain = tiny.generate("x", max_new_tokens=8, temperature=1, seed=7 + number, draft=False)
        assert text == plain.text


def test_blank_lines_are_skipped_and_counted(tiny_folder, alone, tmp_path):
    out = tmp_path / "out.jsonl"
    line = {"prompt": "x", **GREEDY}
    run("batch", tiny_folder, written(tmp_path / "in", line, b"", line), "-o", out, *FAST)
    assert texts_of(out) == {"line-1": alone["x"], "line-3": alone["x"]}


def test_json_says_what_was_done(tiny_folder, tmp_path):
    out = tmp_path / "out.jsonl"
    source = written(tmp_path / "in", {"prompt": "x", **GREEDY}, b"no JSON")
    done = json.loads(run("batch", tiny_folder, source, "-o", out, "--json", *FAST).stdout)
    assert done.pop("seconds") > 0
    assert done == {
        "out": str(out),
        "errors": str(errors_path(out)),
        "lines": 2,
        "earlier": 0,
        "failed": 1,
        "tokens": 8,
    }


# --- interruptions --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tiny_folder, tmp_path_factory) -> tuple[bytes, Path]:
    """The answers of a batch just before they get their name, and its input."""
    folder = tmp_path_factory.mktemp("whole")
    source, out = requests(folder), folder / "out.jsonl"
    kept = []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "edgespec.batch.result_lines._finish",
            lambda _, partial, __: kept.append(partial.read_bytes()),
        )
        run("batch", tiny_folder, source, "-o", out, *FAST)
    return kept[0], source


@one_in(2)
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.77, 0.999, 1.0])
@pytest.mark.parametrize("tail", [b"", b"\0" * 40, b"\0" * 40 + b"\n"])
def test_a_batch_that_was_cut_off_anywhere_continues(
    tiny_folder, alone, whole, tmp_path, share, tail
):
    content, source = whole
    out = tmp_path / "out.jsonl"
    partial_path(out).write_bytes(content[: int(share * len(content))] + tail)
    run("batch", tiny_folder, source, "-o", out, *FAST)
    assert texts_of(out) == expected(alone, len(PROMPTS))


@given(end=st.integers(min_value=0), tail=st.sampled_from([b"", b"\n", b"\0" * 9, b"{}\n"]))
@settings(max_examples=200)
def test_what_is_kept_of_a_file_cut_off_anywhere_are_its_whole_answers(whole, end, tail):
    """So that what comes after is answered again, and nothing else: 200 places of every kind."""
    content, _ = whole
    recipe = json.loads(content.splitlines()[0])
    after_recipe = len(content.splitlines(keepends=True)[0])
    cut = content[: after_recipe + end % (len(content) - after_recipe + 1)]
    kept = cut[: cut.rindex(b"\n") + 1]
    if tail == b"\n" and (cut + tail) in {content[: at + 1] for at in _ends(content)}:
        kept = cut + tail  # only the end of the line was missing
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.jsonl"
        partial_path(out).write_bytes(cut + tail)
        with suppress(KeyboardInterrupt), result_lines(out, recipe, replace=False) as results:
            found = len(results)
            raise KeyboardInterrupt
        assert found == kept.count(b"\n") - 1
        assert partial_path(out).read_bytes() == kept


def _ends(content: bytes) -> list[int]:
    return [index for index, byte in enumerate(content) if byte == ord("\n")]


def test_answers_that_are_there_are_not_computed_again(tiny_folder, whole, tmp_path):
    content, source = whole
    out = tmp_path / "out.jsonl"
    marked = content.replace(b'"request_id": "', b'"request_id": "kept_')
    partial_path(out).write_bytes(b"".join(marked.splitlines(keepends=True)[:3]))
    kept = {answer["custom_id"] for answer in lines_of(partial_path(out))[1:]}
    done = json.loads(run("batch", tiny_folder, source, "-o", out, "--json", *FAST).stdout)
    assert done["earlier"] == 2
    computed = []
    for answer in lines_of(out):
        was_kept = answer["response"]["request_id"].startswith("kept_")
        assert was_kept == (answer["custom_id"] in kept)
        computed += [] if was_kept else [answer]
    usages = [answer["response"]["body"]["usage"] for answer in computed]
    assert done["tokens"] == sum(usage["completion_tokens"] for usage in usages)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
def test_a_process_that_is_killed_loses_and_repeats_no_line(tiny_folder, alone, tmp_path):
    count = 400
    source, out = requests(tmp_path, count), tmp_path / "out.jsonl"
    command = [str(part) for part in ("batch", tiny_folder, source, "-o", out, *FAST)]
    process = subprocess.Popen([EDGESPEC, *command], stderr=subprocess.DEVNULL)
    partial = partial_path(out)
    while process.poll() is None and not (partial.exists() and b"line-5" in partial.read_bytes()):
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not out.exists(), "the batch ended before it was killed"
    done = json.loads(run(*command, "--json").stdout)
    assert 5 <= done["earlier"] < count
    assert texts_of(out) == expected(alone, count)


def test_an_interruption_says_how_to_go_on(tiny_folder, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("edgespec.pair.generation.Stream.ready", interrupt)
    out = tmp_path / "out.jsonl"
    result = run("batch", tiny_folder, requests(tmp_path), "-o", out, *FAST, code=130)
    assert f"{partial_path(out)}: 0 of 5 lines; go on with the same command" in result.stderr
    assert not out.exists()


# --- bad input ------------------------------------------------------------------------------------

BAD = {
    "no JSON": (b"{", "the line is no JSON"),
    "no UTF-8": (b'{"prompt": "\xff"}', "the line is no JSON"),
    "nested too deeply": (b"[" * 100_000, "the line is no JSON"),
    "a list": ([], "the line is []; give a JSON object"),
    "nothing to answer": ({"custom_id": "bad"}, "neither messages nor a prompt"),
    "a name that is a number": ({"custom_id": 3, "prompt": "x"}, "custom_id is 3; give a text"),
    "another url": ({"url": "/v1/embeddings", "body": {}}, "url is '/v1/embeddings'; give"),
    "another method": (
        {"url": "/v1/completions", "method": "GET", "body": {}},
        "method is 'GET'; give POST",
    ),
    "a field that is not known": (
        {"url": "/v1/completions", "body": {"prompt": "x"}, "priority": 1},
        "priority is not known here",
    ),
    "no body": ({"url": "/v1/completions"}, "body is None; give an object"),
    "an option out of range": ({"prompt": "x", "temperature": -1}, "temperature is -1"),
    "an option that is not there": ({"prompt": "x", "num_beams": 4}, "num_beams is 4, which is"),
    "a stream": ({"prompt": "x", "stream": True}, "stream is true"),
    "a prompt that is too long": ({"prompt": "x" * 500}, "96"),
    "a name that is taken": ({"custom_id": "first", "prompt": "x"}, "'first' is an earlier line's"),
}


def test_lines_that_fail_are_named_beside_the_results_and_the_others_go_on(
    tiny_folder, alone, tmp_path
):
    good = {"prompt": "x", **GREEDY}
    lines = [{"custom_id": "first", **good}, *(line for line, _ in BAD.values())]
    out = tmp_path / "out.jsonl"
    source = written(tmp_path / "in", *lines, {"custom_id": "last", **good})
    stderr = run("batch", tiny_folder, source, "-o", out, *FAST).stderr
    assert texts_of(out) == {"first": alone["x"], "last": alone["x"]}
    failures = lines_of(errors_path(out))
    assert [failure["id"] for failure in failures] == [
        f"batch_req_{n + 2}" for n in range(len(BAD))
    ]
    for failure, (what, (_, message)) in zip(failures, BAD.items(), strict=True):
        assert failure["response"]["status_code"] == 400, what
        assert message in failure["response"]["body"]["error"]["message"], what
    assert f"lines that failed: {errors_path(out)}" in stderr


def test_errors_of_an_earlier_batch_do_not_stay(tiny_folder, tmp_path):
    out = tmp_path / "out.jsonl"
    run("batch", tiny_folder, written(tmp_path / "bad", b"no"), "-o", out, *FAST)
    assert messages_of(errors_path(out)).keys() == {"line-1"}
    run("batch", tiny_folder, requests(tmp_path), "-o", out, "--force", *FAST)
    assert not errors_path(out).exists()


def test_results_are_not_replaced_unless_asked(tiny_folder, tmp_path):
    source, out = requests(tmp_path), written(tmp_path / "out.jsonl", {"mine": True})
    result = run("batch", tiny_folder, source, "-o", out, code=2)
    assert f"{out} exists already; replace it with --force" in result.stderr
    assert lines_of(out) == [{"mine": True}]


def test_answers_to_another_batch_are_not_continued(tiny_folder, whole, tmp_path):
    content, _ = whole
    out = tmp_path / "out.jsonl"
    partial_path(out).write_bytes(content)
    other = written(tmp_path / "in", {"prompt": "other", **GREEDY})
    result = run("batch", tiny_folder, other, "-o", out, code=2)
    assert "has answers to another input" in result.stderr
    assert partial_path(out).read_bytes() == content


def test_two_processes_do_not_write_the_same_file(tiny_folder, tmp_path):
    source, out = requests(tmp_path), tmp_path / "out.jsonl"
    with result_lines(out, {}, replace=False):
        result = run("batch", tiny_folder, source, "-o", out, code=2)
    assert f"another process is writing {out}" in result.stderr


@pytest.mark.parametrize(
    ("source", "reason"), [("absent", "No such file"), (".", "Is a directory")]
)
def test_an_input_that_cannot_be_read_is_named(tiny_folder, tmp_path, source, reason):
    result = run("batch", tiny_folder, tmp_path / source, "-o", tmp_path / "o", code=1)
    assert reason in result.stderr


def test_an_option_that_fits_no_line_is_refused_before_the_first(tiny_folder, tmp_path):
    out = tmp_path / "out.jsonl"
    result = run("batch", tiny_folder, requests(tmp_path), "-o", out, "--gamma", 99999, code=2)
    assert "gamma" in result.stderr or "γ" in result.stderr
    assert not out.exists()


@pytest.mark.parametrize("strict", [False, True])
def test_a_line_with_an_unknown_field_is_answered_unless_that_is_not_wanted(
    tiny_folder, tmp_path, strict
):
    (tmp_path / "in.jsonl").write_text(json.dumps({"prompt": "x", "beams": 4, **GREEDY}))
    out, options = tmp_path / "out.jsonl", ["--strict"] if strict else []
    run("batch", tiny_folder, tmp_path / "in.jsonl", "-o", out, *options)
    assert bool(out.read_text()) is not strict
    if strict:
        assert "beams is not known here" in (tmp_path / "out.errors.jsonl").read_text()
