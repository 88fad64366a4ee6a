"""Random checkpoints of BART and its relatives, as transformers writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkpoints import byte_tokenizer
from tokenizer_folders import mbart, nllb

CLASSES = {
    "bart": ("BartConfig", "BartForConditionalGeneration"),
    "mbart": ("MBartConfig", "MBartForConditionalGeneration"),
    "marian": ("MarianConfig", "MarianMTModel"),
    "pegasus": ("PegasusConfig", "PegasusForConditionalGeneration"),
    "m2m100": ("M2M100Config", "M2M100ForConditionalGeneration"),
}
SIZES = {
    "vocab_size": 272,
    "d_model": 48,
    "encoder_layers": 1,
    "decoder_layers": 3,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 51,
    "decoder_ffn_dim": 37,
    "max_position_embeddings": 128,
    "init_std": 0.15,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": None,
}
# The padding token has no position in M2M100, so no text starts with it.
OWN_SIZES = {"m2m100": {"pad_token_id": 2, "decoder_start_token_id": 1}}


def write_bart(folder: Path, family: str, **changes: Any) -> Path:
    """Norms and biases of all sizes, those of the logits too.

    Args:
        changes: keys of the config to add or change; those of generation go to its own file.
    """
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config, model = (getattr(transformers, name) for name in CLASSES[family])
    settings = {"forced_bos_token_id": None, "bad_words_ids": None}
    generation = {name: changes.pop(name, value) for name, value in settings.items()}
    model = model(config(**{**SIZES, **OWN_SIZES.get(family, {}), **changes}))
    model.generation_config.update(**generation)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter += 0.2 * torch.randn(parameter.shape)
            elif "q_proj" in name or "k_proj" in name:
                parameter.normal_(0, 0.25)
        if family != "m2m100":  # has none
            model.final_logits_bias.normal_()
    model.save_pretrained(folder)
    byte_tokenizer(272, append_eos=True).save(str(folder / "tokenizer.json"))
    # As it is: BART's own class would put tokens around a text that it lacks.
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def write_languages(folder: Path, name: str, forced: str | None = "fr_XX", **settings: Any) -> Path:
    """A random mBART that translates from de_DE, and is told its languages.

    Args:
        name: of the tokenizer's class. With mBART's own the decoder starts with the target's
            language, ro_RO; else it is the forced first token of a text.
        forced: that token.
        settings: of `tokenizer_config.json`.
    """
    tokenizer = mbart(("de_DE", "en_XX", "fr_XX", "ro_RO"))
    token = tokenizer.token_to_id
    starts = name == "MBartTokenizer"
    write_bart(
        folder,
        "mbart",
        vocab_size=tokenizer.get_vocab_size() + 60,  # room for the codes that are not there
        decoder_start_token_id=token("ro_RO" if starts else "</s>"),
        eos_token_id=token("</s>"),
        bos_token_id=0,
        pad_token_id=token("<pad>"),
        forced_bos_token_id=None if starts or forced is None else token(forced),
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    values = {"tokenizer_class": name, "src_lang": "de_DE", **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
    return folder


def write_nllb(folder: Path, **settings: Any) -> Path:
    """A random NLLB that translates to no language of its own choice.

    Args:
        settings: of `tokenizer_config.json`.
    """
    tokenizer = nllb()
    token = tokenizer.token_to_id
    ids = {"bos": token("<s>"), "pad": token("<pad>"), "eos": token("</s>")}
    write_bart(
        folder,
        "m2m100",
        vocab_size=tokenizer.get_vocab_size(),
        decoder_start_token_id=ids["eos"],
        **{f"{role}_token_id": index for role, index in ids.items()},
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    values = {"tokenizer_class": "NllbTokenizer", **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
    return folder
