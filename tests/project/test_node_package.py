"""Claim: the JavaScript package generates what the Python package does, and refuses bad input.

Texts, accepted tokens, log-probabilities and prompts are compared with edgespec's, on the shipped
translation pair and on small random models. Its own tests (the exact distribution, decisions,
results, its size) run here too. `make test` installs and builds it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eagle3_checkpoints
import edgespec
import shared_encoder_checkpoints
from chat_templates import TRIMS
from checkpoints import write_noisy, write_small_llama
from depth import one_in
from eagle_checkpoints import write_eagle, write_target
from edgespec.artifact.manifest import FORMAT_VERSION, read_manifest, write_manifest
from edgespec_export.export_pair import export_pair
from node_process import NODE, NodeProcess

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "runtimes" / "js"

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="Node.js is not installed"),
    pytest.mark.skipif(
        not (PACKAGE / "dist").is_dir(), reason="run npm ci && npm run build in runtimes/js"
    ),
]
PROMPTS = [
    "The file could not be opened because it does not exist.",
    "Development files for a library that reads and writes images",
]
HELLO = [{"role": "user", "content": " Hello!\n"}]

IMPORTS = f"""
import {{ load, BusyError, NgramLookup }} from "{PACKAGE}/dist/index.js";
import {{ languageModel }} from "{PACKAGE}/dist/interfaces/ai-sdk.js";
import {{ promptApi, translatorApi }} from "{PACKAGE}/dist/interfaces/built-in-ai.js";
const fails = async (action) => {{
  try {{ await action(); }} catch (error) {{ return `${{error.name}}: ${{error.message}}`; }}
}};
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """Runs a script that fills `results`, and returns them."""
    with NodeProcess(tmp_path_factory.mktemp("scripts"), IMPORTS) as process:
        yield process.run


@pytest.fixture(scope="module")
def generated(node):
    """The results of `Pair.generate` for prompts with options, one after the other."""
    script = """
    const pair = await load(given.folder, { threads: 1, ...given.loading });
    for (const [prompt, options] of given.tasks) results.push(await pair.generate(prompt, options));
    await pair.dispose();
    """

    def run(folder: Path, *tasks: tuple[Any, dict[str, Any]], **loading: Any) -> list[Any]:
        return node(script, {"folder": str(folder), "tasks": tasks, "loading": loading})

    return run


@pytest.fixture(scope="module")
def chat_folder(tmp_path_factory):
    """A random chat model over bytes, whose template trims messages, in several formats."""
    folder = tmp_path_factory.mktemp("node")
    target = write_small_llama(folder / "target")
    settings = {
        "chat_template": TRIMS,
        # Tokens that the tokenizer lacks would be added to it, beyond the model's vocabulary.
        "bos_token": "</s>",
        "eos_token": "</s>",
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (target / "tokenizer_config.json").write_text(json.dumps(settings))
    draft = write_noisy(target, folder / "draft", noise=0.05)
    export_pair(
        str(target),
        str(draft),
        folder / "pair",
        target_formats=["fp32", "int8"],
        cache_formats=["fp32", "fp16", "int8"],
        threads=1,
    )
    return folder / "pair"


@pytest.fixture(scope="module")
def eagle_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("eagle")
    target = write_target(folder / "target", "llama")
    write_eagle(target, folder / "draft")
    export_pair(str(target), str(folder / "draft"), folder / "pair", threads=1)
    return folder / "pair"


@pytest.fixture(scope="module")
def eagle3_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("eagle3")
    target = eagle3_checkpoints.write_deep_target(folder / "target")
    head = eagle3_checkpoints.write_head(folder / "head")
    export_pair(str(target), str(head), folder / "pair", threads=1)
    return folder / "pair"


@pytest.fixture(scope="module")
def shared_encoder_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared-encoder")
    target = shared_encoder_checkpoints.write_target(folder / "target")
    shared_encoder_checkpoints.write_draft(target, folder / "draft", width=None)
    export_pair(str(target), str(folder / "draft"), folder / "pair", threads=1)
    return folder / "pair"


@pytest.fixture(scope="module")
def t5_eagle_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("t5-eagle")
    target = shared_encoder_checkpoints.write_target(folder / "target")
    write_eagle(target, folder / "draft")
    export_pair(str(target), str(folder / "draft"), folder / "pair", threads=1)
    return folder / "pair"


def test_the_packages_own_tests_pass():
    done = subprocess.run(["npm", "test"], cwd=PACKAGE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]


# --- texts ---------------------------------------------------------------------------------------


@one_in(2)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_translations_equal_edgespecs(generated, pair, pair_folder, prompt):
    ours = pair.generate(prompt, draft="model", gamma=3)
    plain, drafted, usual = generated(
        pair_folder,
        (prompt, {"draft": False}),
        (prompt, {"draft": "model", "gamma": 3}),
        (prompt, {}),
    )
    assert plain["tokenIds"] == drafted["tokenIds"] == usual["tokenIds"] == ours.token_ids
    assert plain["text"] == ours.text
    assert plain["stats"]["accepted"] == 0
    assert drafted["stats"]["accepted"] == ours.stats.accepted > 0
    assert drafted["finishReason"] == ours.finish_reason == "eos"


@pytest.mark.parametrize("target_format", ["fp32", "int8", "fp32-cache-fp16", "fp32-cache-int8"])
def test_answers_of_a_chat_model_equal_edgespecs(
    generated, chat_folder, target_format, monkeypatch
):
    monkeypatch.setenv("EDGESPEC_KERNELS", "0")  # kernels round int8 otherwise than the runtime
    pair = edgespec.load(chat_folder, threads=1, target_format=target_format)
    options = {"max_new_tokens": 60, "draft": "model", "gamma": 2}
    ours = pair.generate(HELLO, **options)
    (theirs,) = generated(
        chat_folder,
        (HELLO, {"maxNewTokens": 60, "draft": "model", "gamma": 2}),
        targetFormat=target_format,
    )
    assert theirs["tokenIds"] == ours.token_ids
    assert theirs["text"] == ours.text
    assert theirs["promptTokens"] == ours.prompt_tokens
    assert theirs["stats"]["accepted"] == ours.stats.accepted > 0


@one_in(2)
@pytest.mark.parametrize(
    "of", ["eagle_folder", "eagle3_folder", "t5_eagle_folder", "shared_encoder_folder"]
)
def test_drafts_that_read_their_target_equal_edgespecs(generated, of, request):
    folder = request.getfixturevalue(of)
    pair = edgespec.load(folder, threads=1)
    ours = pair.generate("Hello!", max_new_tokens=60, draft="model", gamma=3)
    (theirs,) = generated(folder, ("Hello!", {"maxNewTokens": 60, "draft": "model", "gamma": 3}))
    assert theirs["tokenIds"] == ours.token_ids
    drafted = [theirs["stats"][name] for name in ("drafted", "evaluated", "accepted")]
    assert drafted == [ours.stats.drafted, ours.stats.evaluated, ours.stats.accepted]


@one_in(2)
@pytest.mark.parametrize(
    # Lookup is another drafter in JavaScript: only the coupled rule's text is the same then.
    ("draft", "their_draft", "rule"),
    [
        (False, False, "coupled"),
        (False, False, "token"),
        (False, False, "block"),
        ("lookup", "ngram", "coupled"),
    ],
)
def test_a_seed_draws_edgespecs_text(generated, chat_folder, draft, their_draft, rule):
    pair = edgespec.load(chat_folder, threads=1)
    prompt = [5, 9, 3, 5, 9, 3, 5, 9]
    sampling = {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.02}
    common = {"gamma": 3, "rule": rule}
    ours = [
        pair.generate(prompt, seed=seed, max_new_tokens=20, draft=draft, **common, **sampling)
        for seed in range(8)
    ]
    options = {"temperature": 0.8, "topK": 40, "topP": 0.9, "minP": 0.02, **common}
    options["draft"] = their_draft
    tasks = [(prompt, {"seed": seed, "maxNewTokens": 20, **options}) for seed in range(8)]
    theirs = generated(chat_folder, *tasks)
    assert [text["tokenIds"] for text in theirs] == [text.token_ids for text in ours]
    assert len({tuple(text.token_ids) for text in ours}) > 1


@one_in(2)
@pytest.mark.parametrize("of", ["chat_folder", "eagle_folder", "pair_folder"])
def test_a_seed_has_edgespecs_text_whatever_drafts(generated, of, request):
    folder = request.getfixturevalue(of)
    prompt, sampling = "The file was not found", {"temperature": 1.5, "top_p": 0.95}
    pair = edgespec.load(folder, threads=1)
    ours = [
        pair.generate(prompt, seed=seed, max_new_tokens=24, draft=False, **sampling).token_ids
        for seed in range(3)
    ]
    options = {"maxNewTokens": 24, "temperature": 1.5, "topP": 0.95}
    accepted = 0
    for draft in [{"draft": False}, {"draft": "ngram"}, {"draft": "model", "gamma": 3}, {}]:
        tasks = [(prompt, {"seed": seed, **options, **draft}) for seed in range(3)]
        theirs = generated(folder, *tasks)
        assert [text["tokenIds"] for text in theirs] == ours
        assert {text["settings"]["rule"] for text in theirs} == {"coupled"}
        accepted += sum(text["stats"]["accepted"] for text in theirs)
    assert accepted > 0
    assert len({tuple(text) for text in ours}) > 1


def test_log_probabilities_equal_edgespecs(generated, chat_folder):
    pair = edgespec.load(chat_folder, threads=1)
    ours = pair.generate(HELLO, max_new_tokens=20, logprobs=True)
    (theirs,) = generated(chat_folder, (HELLO, {"maxNewTokens": 20, "logprobs": True}))
    np.testing.assert_allclose(theirs["logprobs"], ours.logprobs, rtol=0, atol=1e-4)


def test_a_stop_string_ends_the_text_where_edgespec_ends_it(generated, pair, pair_folder):
    whole = pair.generate(PROMPTS[0]).text
    stop = whole[7:12]
    ours = pair.generate(PROMPTS[0], stop=stop)
    (theirs,) = generated(pair_folder, (PROMPTS[0], {"stop": stop}))
    assert theirs["text"] == ours.text == whole.partition(stop)[0]
    assert theirs["finishReason"] == ours.finish_reason == "stop"


def test_prompts_are_encoded_as_edgespecs(node, chat_folder, pair, pair_folder):
    chat = edgespec.load(chat_folder, threads=1)
    conversation = [*HELLO, {"role": "assistant", "content": "Hé </s>"}, HELLO[0]]
    spelled = [{"role": "user", "content": "I type </s> and <s>"}]
    script = """
    for (const [folder, prompts] of given) {
      const pair = await load(folder, { threads: 1 });
      for (const prompt of prompts) results.push(pair.encode(prompt));
    }
    """
    chats, texts = [HELLO, conversation, spelled, "<s>a</s>"], [*PROMPTS, "a ? b : ' c ' . !"]
    found = node(script, [[str(chat_folder), chats], [str(pair_folder), texts]])
    assert found == [chat.encode(one) for one in chats] + [pair.encode(one) for one in texts]


def test_decoding_keeps_spaces(node, pair, pair_folder):
    tokens = pair.tokenizer.encode("a ? b : ' c ' . !").ids
    script = "results.push((await load(given[0], { threads: 1 })).decode(given[1]));"
    assert node(script, [str(pair_folder), tokens]) == [pair.tokenizer.decode(tokens)]


# --- the runtime ---------------------------------------------------------------------------------

COMMON = f"{PACKAGE}/node_modules/onnxruntime-common/dist/esm/index.js"
WITHOUT_KOFFI = """
import { register } from "node:module";
const hook = `export async function resolve(name, context, next) {
  if (name === "koffi") throw new Error("not installed");
  return next(name, context);
}`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
"""


@one_in(2)
@pytest.mark.parametrize("of", ["chat_folder", "eagle_folder", "pair_folder"])
def test_without_koffi_texts_are_the_same(node, of, request, tmp_path):
    script = """
    const pair = await load(given, { threads: 1 });
    const options = { maxNewTokens: 60, draft: "model", gamma: 3, ignoreEos: true };
    for (const temperature of [0, 1]) {
      const found = await pair.generate("Hello!", { ...options, temperature, seed: 1 });
      results.push([found.tokenIds, found.stats.accepted]);
    }
    """
    folder = str(request.getfixturevalue(of))
    with NodeProcess(tmp_path, IMPORTS + WITHOUT_KOFFI) as without:
        assert node(script, folder) == without.run(script, folder)


def test_a_call_writes_the_cache_in_place_and_copies_nothing_of_it(node, chat_folder):
    script = f"""
    const {{ startRuntime }} = await import("{PACKAGE}/dist/node/runtime.js");
    const {{ Tensor }} = await import("{COMMON}");
    """
    script += """
    const session = await (await startRuntime(1)).open(`${given[0]}/target/fp32/decoder.onnx`);
    const int64 = (...values) =>
      new Tensor("int64", BigInt64Array.from(values, BigInt), [values.length]);
    const feeds = { tokens: int64(5, 6, 7), past_length: int64(0), skip: int64(0) };
    const fetches = { logits: null };
    const past = session.inputNames.filter((name) => /^past_(key|value)/.test(name));
    const [heads, width] = given[1];
    const dims = [1, heads, 128, width];
    for (const name of past) {
      feeds[name] = new Tensor("float32", new Float32Array(heads * 128 * width), dims);
      fetches[name.replace("past", "present")] = feeds[name];
    }
    const outputs = await session.run(feeds, fetches);
    results.push(past.every((name) => outputs[name.replace("past", "present")] === feeds[name]));
    results.push(past.every((name) => feeds[name].data.some((value) => value !== 0)));
    results.push(outputs.logits.dims[0]);
    await session.release();
    """
    target = edgespec.load(chat_folder, threads=1).manifest.target
    given = [str(chat_folder), [target.kv_heads, target.head_size]]
    assert node(script, given) == [True, True, 3]


def test_a_call_that_the_runtime_refuses_is_one_sentence(node, chat_folder):
    script = f"const {{ startRuntime }} = await import('{PACKAGE}/dist/node/runtime.js');"
    script += """
    const { open } = await startRuntime(1);
    results.push(await fails(() => open(`${given}/edgespec.json`)));
    const session = await open(`${given}/target/fp32/decoder.onnx`);
    results.push(await fails(() => session.run({}, { logits: null })));
    results.push(await fails(() => session.run({}, { nothing: null })));
    """
    for found in node(script, str(chat_folder)):
        assert found.startswith("Error: ")
        assert len(found.splitlines()) == 1


# --- conversations and streams -------------------------------------------------------------------


def test_a_conversation_that_keeps_the_cache_gives_the_answers_of_one_that_does_not(
    node, chat_folder
):
    script = """
    const options = { threads: 1 };
    const chat = (await load(given, options)).chat({ maxNewTokens: 6 });
    for (const question of ["Hello!", "And more?", "The end"]) {
      const before = chat.messages;
      const { tokenIds } = await chat.send(question).finish();
      const fresh = await load(given, options);
      const messages = [...before, { role: "user", content: question }];
      const again = await fresh.generate(messages, { maxNewTokens: 6 });
      const equal = tokenIds.join() === again.tokenIds.join();
      results.push(equal && chat.messages.length - before.length);
    }
    """
    assert node(script, str(chat_folder)) == [2, 2, 2]


def test_a_stream_releases_the_text_token_by_token(node, chat_folder):
    script = """
    const pair = await load(given, { threads: 1 });
    const stream = pair.stream("Hello!", { maxNewTokens: 30, draft: "model", gamma: 3 });
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    const { text, tokenIds, stats } = stream.result;
    results.push(chunks.map((chunk) => chunk.text).join("") === text);
    results.push(chunks.filter((chunk) => chunk.token !== null).length === tokenIds.length);
    results.push(chunks.filter((chunk) => chunk.drafted).length === stats.accepted);
    """
    assert node(script, str(chat_folder)) == [True, True, True]


def test_a_callers_own_drafter_changes_no_text(node, chat_folder):
    script = """
    const pair = await load(given, { threads: 1 });
    const options = { maxNewTokens: 40 };
    const plain = await pair.generate("abcabcabc", { ...options, draft: false });
    const own = await pair.generate("abcabcabc", { ...options, draft: new NgramLookup(2, 1) });
    results.push(plain.tokenIds.join() === own.tokenIds.join(), own.settings.draft);
    """
    assert node(script, str(chat_folder)) == [True, "own"]


def test_a_second_text_waits_and_a_stream_that_is_left_frees_the_pair(node, chat_folder):
    script = """
    const pair = await load(given, { threads: 1 });
    const stream = pair.stream("Hello!");
    await stream.next();
    results.push(await fails(() => pair.generate("Hello!")), await fails(() => pair.dispose()));
    for await (const chunk of stream) break;
    results.push((await pair.generate("Hello!", { maxNewTokens: 3 })).tokenIds.length);
    await pair.dispose();
    results.push(await fails(() => pair.generate("Hello!")));
    """
    busy, dispose, tokens, disposed = node(script, str(chat_folder))
    assert busy.startswith("BusyError: ")
    assert dispose == busy
    assert tokens == 3
    assert disposed.startswith("DisposedError: ")


def test_a_signal_ends_loading_and_generation(node, chat_folder):
    script = """
    results.push(await fails(() => load(given, { signal: AbortSignal.abort() })));
    const pair = await load(given, { threads: 1 });
    const controller = new AbortController();
    const stream = pair.stream("Hello!", { signal: controller.signal });
    await stream.next();
    controller.abort();
    results.push(await fails(() => stream.finish()));
    results.push((await pair.generate("Hello!", { maxNewTokens: 3 })).tokenIds.length);
    """
    loading, generating, tokens = node(script, str(chat_folder))
    assert loading.startswith("AbortError: ")
    assert generating == loading
    assert tokens == 3


def test_progress_reaches_all_bytes_that_are_needed(node, chat_folder):
    script = """
    const seen = [];
    await load(given, { threads: 1, targetFormat: "int8", onProgress: (one) => seen.push(one) });
    results.push(seen.at(-1).loaded === seen.at(-1).total, seen.map(({ file }) => file));
    """
    whole, files = node(script, str(chat_folder))
    assert whole
    assert "target/int8/weights.data" in files
    assert "target/fp32/weights.data" not in files


# --- interfaces that people already code against -------------------------------------------------


def test_the_ai_sdks_model_gives_edgespecs_text(node, chat_folder):
    ours = edgespec.load(chat_folder, threads=1).generate(
        HELLO, max_new_tokens=20, temperature=0.9, seed=4
    )
    script = """
    const model = languageModel(await load(given[0], { threads: 1 }));
    const prompt = [{ role: "user", content: [{ type: "text", text: given[1] }] }];
    const call = { prompt, maxOutputTokens: 20, temperature: 0.9, seed: 4 };
    const { content, usage, finishReason } = await model.doGenerate(call);
    let streamed = "";
    const { stream } = await model.doStream(call);
    for await (const part of stream) if (part.type === "text-delta") streamed += part.delta;
    results.push(content[0].text, streamed, usage.inputTokens.total, usage.outputTokens.total);
    """
    found = node(script, [str(chat_folder), HELLO[0]["content"]])
    assert found == [ours.text, ours.text, ours.prompt_tokens, len(ours.token_ids)]


def test_a_session_of_the_prompt_api_is_a_conversation(node, chat_folder):
    script = """
    const pair = await load(given, { threads: 1 });
    const options = { maxNewTokens: 12 };
    const session = await promptApi((watch) => load(given, watch), options).create();
    const chat = pair.chat(options);
    for (const question of ["Hello!", "And more?"]) {
      const { text, promptTokens } = await chat.send(question).finish();
      const added = session.contextUsage + (await session.measureContextUsage(question));
      results.push((await session.prompt(question)) === text && added === promptTokens);
    }
    """
    assert node(script, str(chat_folder)) == [True, True]


def test_a_translator_gives_edgespecs_translation(node, pair, pair_folder):
    script = """
    const languages = { sourceLanguage: "en", targetLanguage: "de" };
    const Translator = translatorApi((watch) => load(given[0], watch), languages);
    const translator = await Translator.create(languages);
    results.push(...(await Promise.all(given[1].map((text) => translator.translate(text)))));
    """
    found = node(script, [str(pair_folder), PROMPTS])
    assert found == [pair.generate(prompt).text for prompt in PROMPTS]


# --- row invariance ------------------------------------------------------------------------------


def copy_of(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "pair"))


def test_row_invariance_is_measured_once_and_kept_beside_edgespecs_own(
    generated, chat_folder, tmp_path
):
    folder = copy_of(chat_folder, tmp_path)
    (folder / "row_invariance.json").unlink(missing_ok=True)
    (first,) = generated(folder, ("Hello!", {"maxNewTokens": 5}))
    kept = (folder / "row_invariance.json").read_bytes()
    assert generated(folder, ("Hello!", {"maxNewTokens": 5}))[0]["tokenIds"] == first["tokenIds"]
    assert (folder / "row_invariance.json").read_bytes() == kept
    edgespec.load(folder, threads=1)
    edgespec.load(folder, threads=2)
    machines = {entry["row_invariance"]["machine"] for entry in json.loads(kept)}
    after = json.loads((folder / "row_invariance.json").read_text())
    assert machines < {entry["row_invariance"]["machine"] for entry in after}


def test_a_target_that_is_not_row_invariant_does_not_verify(node, generated, chat_folder, tmp_path):
    folder = copy_of(chat_folder, tmp_path)
    (folder / "row_invariance.json").unlink(missing_ok=True)
    generated(folder, ("Hello!", {"maxNewTokens": 1}))
    entries = json.loads((folder / "row_invariance.json").read_text())
    for entry in entries:
        entry["row_invariance"]["is_row_invariant"] = False
    (folder / "row_invariance.json").write_text(json.dumps(entries))
    script = """
    const pair = await load(given, { threads: 1 });
    results.push((await pair.generate("Hello!", { maxNewTokens: 9 })).settings.draft);
    results.push(await fails(() => pair.generate("Hello!", { draft: "model" })));
    const inexact = await load(given, { threads: 1, allowInexact: true });
    results.push((await inexact.generate("Hello!", { draft: "model" })).settings.draft);
    """
    usual, asked, inexact = node(script, str(folder))
    assert usual == "none"
    assert asked.startswith("NotRowInvariantError: ")
    assert inexact == "model"


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ("Hello!", {"gamma": 17}, "UsageError: gamma is 17; this target was found exact for at"),
        ("Hello!", {"gamma": -2}, "UsageError: gamma is -2; give a whole number from 0"),
        ("Hello!", {"maxNewTokens": 0}, "UsageError: maxNewTokens is 0"),
        ("Hello!", {"temperature": "x"}, 'UsageError: temperature is "x"'),
        ("Hello!", {"topK": -1}, "UsageError: topK is -1"),
        ("Hello!", {"topP": 0}, "UsageError: topP is 0"),
        ("Hello!", {"minP": 2}, "UsageError: minP is 2"),
        ("Hello!", {"seed": -1}, "UsageError: seed is -1"),
        ("Hello!", {"draft": "x"}, 'UsageError: draft is "x"'),
        ("Hello!", {"rule": "x"}, 'UsageError: rule is "x"'),
        ("Hello!", {"stop": ""}, "UsageError: a stop string is empty"),
        ("", {"chat": False}, "UsageError: the prompt is empty"),
        ([], {}, "UsageError: the prompt is empty"),
        ([1, "a"], {}, 'UsageError: the prompt holds "a"'),
        ([999], {}, "UsageError: token 999 is outside"),
        ([{"role": "user"}], {}, 'UsageError: message 1 is {"role":"user"}'),
        ([5] * 9999, {}, "PromptTooLongError: the prompt has 9999 tokens and the cache holds"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_mistake_is_one_sentence(node, chat_folder, prompt, options, message):
    script = """
    const pair = await load(given[0], { threads: 1 });
    results.push(await fails(() => pair.generate(given[1], given[2])));
    """
    (found,) = node(script, [str(chat_folder), prompt, options])
    assert found.startswith(message)
    assert len(found.splitlines()) == 1


def change_manifest(folder: Path, **changes: Any) -> None:
    manifest = json.loads((folder / "edgespec.json").read_text())
    (folder / "edgespec.json").write_text(json.dumps({**manifest, **changes}))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "edgespec.json").unlink(), "NotAPairError: "),
        (lambda folder: (folder / "edgespec.json").write_text("{"), "DamagedError: "),
        (lambda folder: change_manifest(folder, eos_token_ids=[]), "DamagedError: "),
        (
            lambda folder: change_manifest(folder, version=FORMAT_VERSION + 1),
            "FolderVersionError: ",
        ),
        (
            lambda folder: change_manifest(folder, version=FORMAT_VERSION - 1),
            "FolderVersionError: ",
        ),
        (lambda folder: (folder / "tokenizer.json").unlink(), "FileMissingError: "),
        (lambda folder: cut(folder / "target/fp32/weights.data"), "FileChangedError: "),
        (lambda folder: cut(folder / "target/fp32/decoder.onnx"), "FileChangedError: "),
        (lambda folder: (folder / "target/fp32/weights.data").unlink(), "FileMissingError: "),
    ],
    ids=[
        *("no manifest", "half", "changed", "newer", "older", "missing"),
        *("cut", "cut graph", "no weights"),
    ],
)
def test_a_damaged_pair_is_refused(node, chat_folder, tmp_path, damage, message):
    folder = copy_of(chat_folder, tmp_path)
    damage(folder)
    (found,) = node("results.push(await fails(() => load(given)));", str(folder))
    assert found.startswith(message)
    assert len(found.splitlines()) == 1


@pytest.mark.parametrize(
    ("version", "way_out"),
    [(FORMAT_VERSION + 1, "update edgespec"), (FORMAT_VERSION - 1, "export the pair again")],
)
def test_a_folder_of_another_format_says_who_is_too_old(
    node, chat_folder, tmp_path, version, way_out
):
    folder = copy_of(chat_folder, tmp_path)
    change_manifest(folder, version=version)
    (found,) = node("results.push(await fails(() => load(given)));", str(folder))
    assert found == (
        f"FolderVersionError: {folder} has format version {version} and this edgespec reads "
        f"{FORMAT_VERSION}; {way_out}"
    )


def test_a_speech_model_is_refused(node, chat_folder, tmp_path):
    folder = copy_of(chat_folder, tmp_path)
    manifest = read_manifest(folder)
    speech = replace(manifest, target=replace(manifest.target, family="whisper"))
    write_manifest(speech, folder)
    (found,) = node("results.push(await fails(() => load(given)));", str(folder))
    assert found == (
        f"SpeechPairError: {folder} is a speech model (whisper), which JavaScript does not run; "
        "use Python: edgespec transcribe PAIR FILE"
    )


@pytest.mark.parametrize("host", ["gpu", "npu"])
def test_a_pair_for_a_device_is_refused(node, chat_folder, tmp_path, host):
    folder = copy_of(chat_folder, tmp_path)
    write_manifest(replace(read_manifest(folder), host=host), folder)
    (found,) = node("results.push(await fails(() => load(given)));", str(folder))
    assert found == (f"UsageError: {folder} was exported with --for {host}; export it without")


@pytest.mark.parametrize(
    ("loading", "message"),
    [
        ({"targetFormat": "int4"}, 'UsageError: the target was not exported as "int4"; there is: '),
        ({"draftFormat": "int4"}, 'UsageError: the draft was not exported as "int4"; there is: '),
        ({"capacity": 0}, "UsageError: capacity is 0"),
        ({"threads": 9999}, "UsageError: threads is 9999"),
    ],
    ids=str,
)
def test_an_option_that_is_out_of_range_is_refused(node, chat_folder, loading, message):
    script = "results.push(await fails(() => load(given[0], given[1])));"
    (found,) = node(script, [str(chat_folder), loading])
    assert found.startswith(message)


# --- the example ---------------------------------------------------------------------------------


def test_the_example_prints_edgespecs_text(pair, pair_folder):
    example = ROOT / "examples" / "node" / "generate.mjs"
    if not (example.parent / "node_modules").is_dir():
        pytest.skip("run npm ci in examples/node")
    done = subprocess.run(
        [str(NODE), str(example), str(pair_folder), PROMPTS[0]], capture_output=True, text=True
    )
    assert done.stdout == f"{pair.generate(PROMPTS[0]).text}\n"
    assert "of them from the draft" in done.stderr
    failed = subprocess.run(
        [str(NODE), str(example), "/nosuch", "a"], capture_output=True, text=True
    )
    assert failed.returncode == 1
    assert len(failed.stderr.splitlines()) == 1
