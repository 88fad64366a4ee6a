"""Claim: the JAX networks compute what transformers computes: float32 logits within 1e-4.

Tested on tiny random checkpoints of every kind that the JAX path has, with awkward sizes, and on
the shipped pair. The JAX side prefills a padded prompt and scores the text in two cached calls with
a rejected tail between them, so the comparison includes padding, cache and rewind.
"""

import numpy as np
import pytest
from tokenizers import Tokenizer

from checkpoints import add_tensor, write_llama, write_t5
from depth import deep, one_in
from shipped_models import MODELS

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
blocks = pytest.importorskip("edgespec_jax.jax_blocks")
checkpoints = pytest.importorskip("edgespec_jax.jax_checkpoint")
jax_t5 = pytest.importorskip("edgespec_jax.jax_t5")
weights = pytest.importorskip("edgespec_jax.jax_weights")

TOLERANCE = 1e-4
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
CASES = {
    "t5 v1.0": lambda folder: write_t5(folder),
    "t5 v1.1": lambda folder: write_t5(folder, gated=True, layers=2, encoder_layers=3),
    "t5 gated relu": lambda folder: write_t5(folder, gated=True, feed_forward_proj="gated-relu"),
    "mt5": lambda folder: write_t5(
        folder, gated=True, model_type="mt5", architectures=["MT5ForConditionalGeneration"]
    ),
    "llama, grouped heads": lambda folder: write_llama(folder, heads=6, kv_heads=2),
    "llama, tied head, biases": lambda folder: write_llama(
        folder, tie_word_embeddings=True, attention_bias=True, mlp_bias=True
    ),
    "llama, tied by its config, with another head": lambda folder: add_tensor(
        write_llama(folder, tie_word_embeddings=True),
        "lm_head.weight",
        like="model.embed_tokens.weight",
        noise=1.0,
    ),
    "llama 3.1": lambda folder: write_llama(folder, rope_theta=5e5, rope_scaling=LLAMA3),
    "qwen2": lambda folder: write_llama(folder, model_type="qwen2", head_dim=None),
    "qwen3": lambda folder: write_llama(folder, model_type="qwen3", kv_heads=1, width=20),
}
PROMPT, TEXT, PADDING, HALF, JUNK = 9, 12, 4, 5, 3


def load(source):
    return weights.load_jax_model(checkpoints.open_jax_checkpoint(str(source)))


def jax_logits(model, prompt, text):
    """Logits after the prompt and after each token of the text, and the pending token."""
    network, params = model.network, model.params
    cache = blocks.empty_cache(network, len(prompt) + PADDING + len(text) + JUNK, jnp.float32)
    padded = jnp.array([*prompt, *[3] * PADDING], jnp.int32)
    prefill, decode = jax.jit(network.prefill), jax.jit(network.decode)
    context, cache, pending, base = prefill(params, cache, padded, jnp.int32(len(prompt)))
    first = jnp.array([pending, *text[:HALF], *[5] * JUNK], jnp.int32)
    before, cache = decode(params, context, cache, first, base)
    after, _ = decode(params, context, cache, jnp.array(text[HALF:]), base + HALF + 1)
    return np.concatenate([before[: HALF + 1], after]), int(pending)


def transformers_logits(source, prompt, text, pending, dtype=torch.float32):
    config = transformers.AutoConfig.from_pretrained(source)
    kind = "Seq2SeqLM" if config.is_encoder_decoder else "CausalLM"
    auto = getattr(transformers, f"AutoModelFor{kind}")
    model = auto.from_pretrained(source, dtype=dtype).eval()
    with torch.inference_mode():
        if config.is_encoder_decoder:
            ids = {"input_ids": prompt, "decoder_input_ids": [pending, *text]}
        else:
            ids = {"input_ids": [*prompt, *text]}
        ids = {name: torch.tensor([tokens]) for name, tokens in ids.items()}
        return model(**ids, use_cache=False).logits[0, -len(text) - 1 :].numpy()


# Others have the same parts.
DEEP = {"t5 gated relu", "mt5", "llama, tied head, biases", "llama 3.1"}


@one_in(2)
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=deep) if case in DEEP else case for case in CASES]
)
def test_logits_are_those_of_transformers(case, tmp_path):
    source = CASES[case](tmp_path / "checkpoint")
    model = load(source)
    generator = np.random.default_rng(0)
    prompt, text = (
        [int(token) for token in generator.integers(model.network.vocab_size, size=size)]
        for size in (PROMPT, TEXT)
    )
    logits, pending = jax_logits(model, prompt, text)
    difference = np.abs(logits - transformers_logits(source, prompt, text, pending)).max()
    print(f"{case}: max |difference| {difference:.1e}")
    assert difference <= TOLERANCE


@one_in(2, turn=1)
@pytest.mark.parametrize("name", ["en-de-target", "en-de-draft"])
def test_logits_of_the_shipped_pair_are_those_of_transformers(name):
    source = MODELS / name
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    prompt = tokenizer.encode("GNOME development IDE, for C/C++ - data files").ids
    text = tokenizer.encode("Entwicklungsumgebung für GNOME - Datendateien").ids
    logits, pending = jax_logits(load(source), prompt, text)
    difference = np.abs(logits - transformers_logits(source, prompt, text, pending)).max()
    print(f"{name}: max |difference| {difference:.1e}")
    assert difference <= TOLERANCE


@deep
def test_a_long_random_text_is_as_close_to_float64_as_transformers_is():
    """200 positions: more than the 128 distances that relative positions distinguish.

    Random tokens make attention so sharp that float32 differs from float64 by a few 1e-4.
    """
    source = MODELS / "en-de-target"
    generator = np.random.default_rng(1)
    prompt, text = ([int(t) for t in generator.integers(8192, size=size)] for size in (150, 199))
    logits, pending = jax_logits(load(source), prompt, text)
    exact, theirs = (
        transformers_logits(source, prompt, text, pending, dtype)
        for dtype in (torch.float64, torch.float32)
    )
    ours = np.abs(logits - exact).max()
    print(f"from float64: {ours:.1e}, transformers {np.abs(theirs - exact).max():.1e}")
    assert ours <= 3 * np.abs(theirs - exact).max()


@deep
def test_a_decoder_only_pair_speculates_the_greedy_text_of_its_target(tiny_checkpoints):
    """Llama, prompts of one token and more: the speculative text is the plain text."""
    path = pytest.importorskip("edgespec_jax.jax_pair")
    models = [load(folder) for folder in tiny_checkpoints]
    sizes = {"greedy": True, "prompt_capacity": 8, "capacity": 24, "ends": ()}
    plain = path.JaxDecoder(*models, gamma=0, **sizes)
    fast = path.JaxDecoder(*models, gamma=3, rule="token", **sizes)
    for length in (1, 2, 8):
        prompt = list(range(40, 40 + length))
        text = fast.generate(prompt)
        assert text.tokens == plain.generate(prompt).tokens
        assert len(text.rounds) < len(text.tokens) == 24
    assert plain.traces == fast.traces == 1


def test_the_layout_for_accelerators_computes_the_same(tmp_path, monkeypatch):
    """There matrices are [out, in], and one row of a wide T5 is computed as two."""
    write_t5(tmp_path, gated=True)
    usual = load(tmp_path)
    expected = logits_of_calls(usual)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax_t5, "PAIRED_WIDTH", 1)
    other = load(tmp_path)
    assert usual.params[blocks.HEAD].shape == other.params[blocks.HEAD].shape[::-1]
    for row, wanted in zip(logits_of_calls(other), expected, strict=True):
        assert row.shape == wanted.shape
        assert np.abs(row - wanted).max() < TOLERANCE


def logits_of_calls(model):
    """Of two calls of one position and one of two, which overwrites what may follow them."""
    prefill, decode = jax.jit(model.network.prefill), jax.jit(model.network.decode)
    cache = blocks.empty_cache(model.network, 8, jnp.float32)
    prompt = jnp.array([3, 4, 5], jnp.int32)
    context, cache, _, base = prefill(model.params, cache, prompt, jnp.int32(3))
    found = []
    for at, tokens in enumerate([[6], [7], [8, 9]]):
        ids = jnp.array(tokens, jnp.int32)
        logits, cache = decode(model.params, context, cache, ids, base + at)
        found.append(np.asarray(logits))
    return found
