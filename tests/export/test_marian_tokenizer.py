"""Claim: a Marian's source.spm and vocab.json give transformers' ids, or one line says why not.

The SentencePiece files are trained here, by the library itself, on a few sentences.
"""

import io
import json

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

import edgespec
from bart_checkpoints import write_bart
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.tokenizer.tokenizers_file import load_tokenizer
from edgespec_export.export_pair import export_pair

ENGLISH = [
    "The old bridge over the river was closed for repairs in the spring.",
    "Please save your changes before you close the window [F2].",
    "Two of the three files could not be opened: access denied & logged.",
    "We walked along the beach until the sun had gone down behind the hills.",
    "How much does a ticket to the next town cost? It costs 7^2 - 3 euros.",
]
GERMAN = [
    "Die alte Brücke über den Fluss wurde im Frühling für Reparaturen gesperrt.",
    "Bitte speichern Sie Ihre Änderungen, bevor Sie das Fenster schließen.",
    "Zwei der drei Dateien konnten nicht geöffnet werden: Zugriff verweigert.",
    "Wir gingen den Strand entlang, bis die Sonne hinter den Hügeln war.",
    "Wie viel kostet eine Fahrkarte in die nächste Stadt?",
]
AWKWARD = [
    "",
    " ",
    "  the   old\tbridge\n",
    "▁the",
    "Brücke 日本語 😀 the",
    "a日本b",
    "ﬁle №5 — “quoted” 7^2 [F2] \\ - &&",
    ">>fr<< The river",
    "the</s>river",
]


def trained(sentences) -> bytes:
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences * 20),
        model_writer=out,
        vocab_size=90,
        model_type="unigram",
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return out.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What OPUS-MT's repositories have: two files of pieces, and one vocabulary of both."""
    folder = tmp_path_factory.mktemp("marian")
    pieces = {">>fr<<"}
    for name, sentences in (("source.spm", ENGLISH), ("target.spm", GERMAN)):
        content = trained(sentences)
        (folder / name).write_bytes(content)
        model = sentencepiece.SentencePieceProcessor(model_proto=content)
        pieces |= {model.id_to_piece(number) for number in range(model.get_piece_size())}
    ordinary = sorted(pieces - {"<s>", "</s>", "<unk>"}, key=lambda piece: (len(piece), piece))
    tokens = ["</s>", "<unk>", *ordinary, "<pad>"]
    ids = {token: number for number, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def both(folder):
    """Ours, and transformers'."""
    marian = pytest.importorskip("transformers").MarianTokenizer
    return load_tokenizer(folder, {}), marian.from_pretrained(folder)


@pytest.mark.parametrize("text", [*AWKWARD, *ENGLISH, *GERMAN])
def test_a_text_has_the_ids_that_transformers_gives_it(both, text):
    ours, theirs = both
    assert ours.encode(text).ids == theirs(text).input_ids


@given(st.text("the old bridge [F2] & 7^2-\\ ÄÖéß▁日", max_size=40))
def test_any_text_has_them_but_for_tokens_of_several_characters_that_the_source_lacks(both, text):
    ours, theirs = both
    spm, ids = theirs.spm_source, theirs.get_vocab()
    known = {spm.id_to_piece(number) for number in range(spm.get_piece_size())}
    pieces = spm.encode(text, out_type=str)
    expected = [ids.get(one, 1) if one in known or len(one) == 1 else 1 for one in pieces]
    assert ours.encode(text).ids == [*expected, 0]


@pytest.mark.parametrize("text", GERMAN)
def test_a_translation_is_decoded_as_transformers_does(both, text):
    ours, theirs = both
    ids = theirs(text_target=text).input_ids
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True) == text


def test_a_language_is_one_special_token(both):
    ours, _ = both
    code = ours.token_to_id(">>fr<<")
    assert ours.encode(">>fr<< The river").ids[0] == code
    assert ours.decode([code, *ours.encode("The river").ids]) == "The river"


def changed(folder, tmp_path, **files):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for name, content in files.items():
        (tmp_path / name.replace("_json", ".json").replace("_spm", ".spm")).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"target_vocab_json": b"{}"}, "target_vocab.json is not read: .* must share one"),
        ({"vocab_json": b'{"</s>": 0, "<unk>": 2, "<pad>": 3}'}, "are not the numbers from 0 to 2"),
        ({"vocab_json": b'{"</s>": 0, "<unk>": 1, "a": 2}'}, "has no token '<pad>'"),
        ({"vocab_json": b'{"</s>": 0, "<unk>": 1, "<pad>": true}'}, "are not the numbers"),
        ({"source_spm": b"\x00"}, "source.spm: cut off or not a SentencePiece model"),
    ],
)
def test_files_that_do_not_fit_are_refused_by_name(folder, tmp_path, files, named):
    with pytest.raises(EdgespecError, match=named) as error:
        load_tokenizer(changed(folder, tmp_path, **files), {})
    assert "\n" not in str(error.value)


def test_a_missing_vocabulary_is_named(folder, tmp_path):
    (changed(folder, tmp_path) / "vocab.json").unlink()
    with pytest.raises(EdgespecError, match=r"vocab\.json"):
        load_tokenizer(tmp_path, {})


def test_a_checkpoint_in_opus_mts_layout_translates_as_transformers_does(folder, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    size = len(json.loads((folder / "vocab.json").read_text(encoding="utf-8")))
    special = {"eos_token_id": 0, "pad_token_id": size - 1, "decoder_start_token_id": size - 1}
    source = write_bart(
        tmp_path / "model", "marian", vocab_size=size, bad_words_ids=[[size - 1]], **special
    )
    (source / "tokenizer.json").unlink()
    changed(folder, source)
    export_pair(str(source), None, tmp_path / "pair", target_formats=["fp32"], threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    model = transformers.MarianMTModel.from_pretrained(source).eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(source)
    for sentence in ENGLISH:
        ids = torch.tensor([tokenizer(sentence).input_ids])
        expected = model.generate(ids, max_new_tokens=16, do_sample=False, num_beams=1)[0, 1:]
        found = pair.generate(sentence, max_new_tokens=16)
        assert [*found.token_ids] == expected.tolist()
        assert found.text == tokenizer.decode(expected, skip_special_tokens=True)
