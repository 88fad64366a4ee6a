"""The languages of an mBART-like model are the checkpoint's own, or those asked for."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

import edgespec
from bart_checkpoints import write_languages
from command import run
from depth import one_in
from edgespec.artifact.languages import Languages
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import UsageError
from edgespec_export.export_pair import export_pair
from serving import JSON_TYPE, Served, connected

TEXT = "hello world, it's 12:45"
SHORT = {"max_new_tokens": 6, "ignore_eos": True}


@pytest.fixture(scope="module", params=["MBart50Tokenizer", "MBartTokenizer"])
def checkpoint(request, tmp_path_factory):
    return write_languages(tmp_path_factory.mktemp("languages") / "checkpoint", request.param)


@pytest.fixture(scope="module")
def folder(checkpoint):
    """With itself as its draft."""
    folder = checkpoint.parent / "pair"
    export_pair(str(checkpoint), str(checkpoint), folder, measure=False, threads=1)
    return folder


@pytest.fixture(scope="module")
def pair(folder):
    return edgespec.load(folder, threads=1, allow_inexact=True)


@pytest.fixture(scope="module")
def reference(checkpoint):
    transformers = pytest.importorskip("transformers")
    model = transformers.MBartForConditionalGeneration.from_pretrained(checkpoint)
    return transformers.AutoTokenizer.from_pretrained(checkpoint), model.eval()


def expected(reference, target, source="de_DE"):
    """Token ids of a text in transformers, without the start token."""
    tokenizer, model = reference
    tokenizer.src_lang = source
    inputs = tokenizer(TEXT, return_tensors="pt")
    token = tokenizer.convert_tokens_to_ids(target)
    starts = type(tokenizer).__name__ == "MBartTokenizer"
    begin = {"decoder_start_token_id": token} if starts else {"forced_bos_token_id": token}
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "num_beams": 1}
    options["eos_token_id"] = None  # the text goes on, as with ignore_eos
    return model.generate(**inputs, **begin, **options)[0, 1:].tolist()


def test_the_checkpoints_own_languages_are_the_default(pair, reference):
    own = {"MBart50Tokenizer": "fr_XX", "MBartTokenizer": "ro_RO"}[type(reference[0]).__name__]
    languages = pair.manifest.languages
    assert (languages.source, languages.target) == ("de_DE", own)
    assert {"de_DE", "en_XX", "fr_XX", "ro_RO"} <= languages.tokens.keys()
    assert pair.encode(TEXT) == reference[0](TEXT).input_ids
    assert pair.generate(TEXT, **SHORT).token_ids == expected(reference, own)


@one_in(2)
@pytest.mark.parametrize("source", ["en_XX", "de_DE"])
@pytest.mark.parametrize("target", ["de_DE", "ro_RO"])
@pytest.mark.parametrize("draft", [False, "lookup", "model"])
def test_a_text_in_other_languages_is_that_of_transformers(pair, reference, source, target, draft):
    answer = pair.generate(
        TEXT, source_language=source, target_language=target, draft=draft, **SHORT
    )
    assert answer.token_ids == expected(reference, target, source)


def test_a_sampled_text_is_that_of_its_seed_whatever_drafts(pair):
    options = {"target_language": "de_DE", "temperature": 1.0, "seed": 3, **SHORT}
    plain = pair.generate(TEXT, draft=False, **options)
    assert pair.generate(TEXT, draft="lookup", **options).token_ids == plain.token_ids
    assert pair.generate(TEXT, repetition_penalty=1.5, **options).token_ids[0] == plain.token_ids[0]


def test_several_texts_have_the_languages_that_were_asked_for(pair, reference):
    options = {"source_language": "en_XX", "target_language": "de_DE", **SHORT}
    texts = list(pair.generate_many([TEXT, TEXT], **options))
    assert [text.token_ids for text in texts] == [expected(reference, "de_DE", "en_XX")] * 2


def test_what_is_asked_for_in_vain_is_refused_with_the_languages(pair):
    known = "this model knows .*de_DE.*, en_XX"
    with pytest.raises(UsageError, match=rf"target_language is 'xx_XX'; {known}"):
        pair.generate(TEXT, target_language="xx_XX")
    with pytest.raises(UsageError, match=rf"source_language is 7; {known}"):
        pair.generate(TEXT, source_language=7)
    with pytest.raises(UsageError, match="source_language comes with a text to translate"):
        pair.generate([5, 6], source_language="en_XX")


def test_a_grammar_has_no_place_for_a_language(pair):
    options = {"target_language": "de_DE", "grammar": edgespec.regex("[a-z]+")}
    if pair.manifest.languages.target_is_start:  # the language comes before the text
        assert pair.generate(TEXT, max_new_tokens=2, **options).text.isalpha()
        return
    with pytest.raises(UsageError, match="a grammar has no place for target_language"):
        pair.generate(TEXT, **options)


def test_the_command_line_has_the_languages(folder, pair):
    options = ["--source-language", "en_XX", "--target-language", "de_DE", "--ignore-eos"]
    done = run("generate", folder, TEXT, "-n", 6, "--no-draft", "--json", *options)
    wanted = pair.generate(TEXT, source_language="en_XX", target_language="de_DE", **SHORT)
    assert json.loads(done.stdout)["token_ids"] == wanted.token_ids
    wrong = run("generate", folder, TEXT, "--no-draft", "--source-language", "x", code=2)
    assert "source_language is 'x'; this model knows" in wrong.stderr
    assert wrong.stderr.count("\n") <= 3


def test_the_server_takes_the_languages(folder, pair):
    fields = {"prompt": TEXT, "max_tokens": 6, "temperature": 0, "ignore_eos": True}

    def completion(port, **more):
        body = json.dumps({**fields, **more})
        with closing(connected(port)) as connection:
            connection.request("POST", "/v1/completions", body, JSON_TYPE)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    languages = {"source_language": "en_XX", "target_language": "de_DE"}
    with Served(edgespec.load(folder, threads=1, allow_inexact=True)) as port:
        status, answer = completion(port, **languages)
        refused, error = completion(port, target_language="xx_XX")
    assert (status, refused) == (200, 400)
    assert answer["choices"][0]["text"] == pair.generate(TEXT, **languages, **SHORT).text
    assert "target_language is 'xx_XX'; this model knows" in error["error"]["message"]


def test_tgt_lang_begins_a_text_where_no_setting_names_another(tmp_path):
    source = write_languages(
        tmp_path / "checkpoint", "MBart50Tokenizer", forced=None, tgt_lang="ro_RO"
    )
    export_pair(str(source), None, tmp_path / "pair", measure=False, verify=True, threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1, allow_inexact=True)
    languages = pair.manifest.languages
    assert languages.target == "ro_RO"
    assert pair.generate(TEXT, **SHORT).token_ids[0] == languages.tokens["ro_RO"]


def test_a_model_without_languages_says_so(tmp_path):
    source = write_languages(tmp_path / "checkpoint", "PreTrainedTokenizerFast")
    export_pair(str(source), None, tmp_path / "pair", measure=False, threads=1)
    assert read_manifest(tmp_path / "pair").languages is None
    pair = edgespec.load(tmp_path / "pair", threads=1, allow_inexact=True)
    with pytest.raises(UsageError, match="this model has no languages to choose from"):
        pair.generate(TEXT, target_language="de_DE")


def test_many_languages_are_named_up_to_a_limit():
    tokens = {f"l{number:03}_XX": number for number in range(202)}
    languages = Languages(tokens, "l000_XX", False, None, False)
    with pytest.raises(UsageError, match="l059_XX and 142 more"):
        languages.token("x", "target_language")
