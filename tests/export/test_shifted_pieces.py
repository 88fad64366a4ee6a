"""Claim: `sentencepiece.bpe.model` of an mBART and `spiece.model` of a Pegasus, whose token ids are
not those of their pieces, give the ids of transformers' `AutoTokenizer`."""

from __future__ import annotations

import json

import pytest
from test_checkpoint_tokenizers import CONTROL, PIECES, UNKNOWN, spiece

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.tokenizer.tokenizers_file import load_tokenizer

FAIRSEQ = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL), *PIECES[3:]]
TEXTS = (
    "",
    " ",
    "the cats",
    "  the   cats\n the ",
    "the cats</s>the",
    "naïve 日本語 ts",
    "en_XXthe",
)
KINDS = {
    "mBART": (
        "sentencepiece.bpe.model",
        spiece(FAIRSEQ, trainer={40: 0}),
        "mbart",
        "MBartTokenizer",
    ),
    "mBART-50": (
        "sentencepiece.bpe.model",
        spiece(FAIRSEQ, trainer={40: 0}),
        "mbart",
        "MBart50Tokenizer",
    ),
    "Pegasus": ("spiece.model", spiece(), "pegasus", "PegasusTokenizer"),
}


def write(folder, kind, content=None):
    name, pieces, model_type, tokenizer_class = KINDS[kind]
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": model_type}
    (folder / name).write_bytes(pieces if content is None else content)
    (folder / "config.json").write_text(json.dumps(config))
    settings = {"tokenizer_class": tokenizer_class}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return config


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("saved", [False, True])
def test_ids_are_those_of_auto_tokenizer(kind, saved, tmp_path):
    transformers = pytest.importorskip("transformers")
    config, folder = write(tmp_path / "slow", kind), tmp_path / "slow"
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    if saved:
        folder = tmp_path / "saved"
        theirs.save_pretrained(folder)
        (folder / "config.json").write_text(json.dumps(config))
    ours = load_tokenizer(folder, config)
    for text in TEXTS:
        for special in (True, False):
            expected = theirs(text, add_special_tokens=special).input_ids
            encoded = ours.encode(text, add_special_tokens=special)
            assert encoded.ids == expected, f"{text!r}: {encoded.tokens}"
    assert ours.get_vocab_size() == len(theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_another_model_are_refused(kind, tmp_path):
    content = spiece([("<s>", 0.0, CONTROL), *PIECES[3:]])
    config = write(tmp_path, kind, content)
    with pytest.raises(
        EdgespecError, match=r"begins with the pieces <s>, .*tokenizer\.json"
    ) as error:
        load_tokenizer(tmp_path, config)
    assert "\n" not in str(error.value)
