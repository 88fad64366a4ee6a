"""Train the shipped English→German T5 from nothing: the target of the pair in models/.

    python examples/en_de/train_target.py CORPUS_DIR models/en-de-target

CORPUS_DIR is the output of corpus/. Two methods let 26M parameters learn to translate from a few
million tokens on two cores: a word alignment (align.py) guides one attention head of each upper
decoder layer, and Muon optimises the matrices. An interrupted run continues from its last state;
after the last step the same command does nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sacrebleu
import torch
from align import embeddings, lexicon
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from training_forward import Watch, decode, encode, head
from transformers import T5Config, T5ForConditionalGeneration

from edgespec_distill.data.examples import padded
from edgespec_distill.training.optimizer import MasterWeights

PAD = 0
MAX_TOKENS = 160  # of a source or target; 2 % of the descriptions are longer
GUIDED_LAYERS = 2
WEIGHTS = "model.safetensors"
SHARES = {"descriptions": 1.0, "documents": 1.0, "messages": 0.3, "lexicon": 0.15}
CONFIG = T5Config(
    vocab_size=8192,
    d_model=512,
    d_kv=64,
    d_ff=2048,
    num_layers=3,
    num_decoder_layers=3,  # equal, because transformers sizes its cache by the encoder's
    num_heads=8,
    dropout_rate=0.1,
    feed_forward_proj="relu",
    tie_word_embeddings=True,
    decoder_start_token_id=PAD,
)

Pair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class Batch:
    """Padded pairs.

    Attributes:
        source: [batch, source].
        target: [batch, target]; ends with an end token, then padding.
        alignment: [batch, target, source]; each row sums to 1, or to 0 if it is unknown.
    """

    source: Tensor
    target: Tensor
    alignment: Tensor

    @property
    def mask(self) -> Tensor:
        """[batch, 1, 1, source], added to the scores: very negative for padding."""
        return ((self.source == PAD).to(torch.bfloat16) * -1e9)[:, None, None]

    @property
    def tokens(self) -> int:
        """The number of target tokens without padding."""
        return int((self.target != PAD).sum())


def read_pairs(file: Path, tokenizer: Tokenizer) -> list[Pair]:
    """The pairs of a file as token ids, without those that are too long."""
    lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    english = tokenizer.encode_batch([line[0] for line in lines])
    german = tokenizer.encode_batch([line[1] for line in lines])
    pairs = [(e.ids, g.ids) for e, g in zip(english, german, strict=True)]
    return [(e, g) for e, g in pairs if len(e) <= MAX_TOKENS and len(g) <= MAX_TOKENS]


def alignment(source: Tensor, target: Tensor, table: npt.NDArray[np.float16]) -> Tensor:
    """Posterior of IBM Model 1 with a preference for the diagonal (Dyer et al. 2013).

    Returns:
        float32 [batch, target, source].
    """
    s, t = source.numpy(), target.numpy()
    likely = table[s[:, None, :], t[:, :, None]].astype(np.float32)
    lengths = (s != PAD).sum(1), (t != PAD).sum(1)
    position = np.arange(t.shape[1])[None, :, None] / lengths[1][:, None, None]
    origin = np.arange(s.shape[1])[None, None, :] / lengths[0][:, None, None]
    likely *= np.exp(-4 * np.abs(position - origin)) * (s != PAD)[:, None, :]
    none = table[-1][t].astype(np.float32)[:, :, None] * 0.2 + 1e-6
    likely *= (t != PAD)[:, :, None]
    return torch.from_numpy(likely / (likely.sum(-1, keepdims=True) + none))


def batches(
    pairs: list[Pair], table: npt.NDArray[np.float16], budget: int, rng: random.Random
) -> Iterator[Batch]:
    """Endless batches of at most `budget` padded target tokens, of pairs of similar length."""
    while True:
        order = sorted(pairs, key=lambda p: max(map(len, p)) * rng.uniform(0.85, 1.15))
        groups: list[list[Pair]] = [[]]
        longest = 0
        for pair in order:
            longest = max(longest, *map(len, pair))
            if longest * (len(groups[-1]) + 1) > budget:
                groups.append([])
                longest = max(map(len, pair))
            groups[-1].append(pair)
        rng.shuffle(groups)
        for group in groups:
            source, target = (padded(rows, PAD)[0] for rows in zip(*group, strict=True))
            yield Batch(source, target, alignment(source, target, table))


def logits_of(model: Any, batch: Batch, dropout: float, watch: Watch | None) -> Tensor:
    """[batch, target, vocabulary]."""
    hidden = encode(model, batch.source, batch.mask, dropout)
    start = torch.full((len(batch.target), 1), CONFIG.decoder_start_token_id)
    previous = torch.cat([start, batch.target[:, :-1]], 1)
    return head(model, decode(model, hidden, batch.mask, previous, dropout, watch))


def losses(model: Any, batch: Batch, dropout: float) -> tuple[Tensor, Tensor]:
    """Cross entropy per target token, and that of the guided heads with the alignment."""
    guided: list[Tensor] = []

    def watch(depth: int, scores: Tensor) -> None:
        if depth >= CONFIG.num_decoder_layers - GUIDED_LAYERS:
            logs = torch.log_softmax(scores[:, 0].float(), -1)
            guided.append(-(batch.alignment * logs).sum() / batch.tokens)

    logits = logits_of(model, batch, dropout, watch).flatten(0, 1).float()
    loss = functional.cross_entropy(logits, batch.target.flatten(), ignore_index=PAD)
    return loss, torch.stack(guided).mean()


@torch.no_grad()
def validation_loss(model: Any, valid: list[Batch]) -> float:
    """Mean cross entropy per target token."""
    total, count = 0.0, 0
    for batch in valid:
        loss, _ = losses(model, batch, 0.0)
        total, count = total + float(loss) * batch.tokens, count + batch.tokens
    return total / count


@torch.no_grad()
def translate(model: Any, tokenizer: Tokenizer, lines: list[str]) -> list[str]:
    """Greedy translations by transformers' `generate`."""
    out: dict[int, str] = {}
    order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
    for group in _groups(order, 54):
        source, read = padded([tokenizer.encode(lines[i]).ids for i in group], PAD)
        made = model.generate(
            input_ids=source,
            attention_mask=read.long(),
            max_new_tokens=min(250, 2 * source.shape[1] + 10),
            do_sample=False,
            num_beams=1,
        )
        for i, ids in zip(group, made.tolist(), strict=True):
            out[i] = tokenizer.decode(ids, skip_special_tokens=True)
    return [out[i] for i in range(len(lines))]


def _groups(order: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(order), size):
        yield order[start : start + size]


def rate_at(step: int, steps: int, peak: float) -> float:
    """The learning rate: rises for 200 steps, is constant, falls to zero over the last third."""
    fall = steps // 3
    return peak * min(1.0, (step + 1) / 200, max(0.0, (steps - step) / fall))


def _draw_corpus(names: list[str], height: float, rng: random.Random) -> str:
    """Draws a corpus: as the rate falls to zero, so do the shares of all but the descriptions."""
    shares = [SHARES[n] * (1.0 if n == "descriptions" else height) for n in names]
    return rng.choices(names, shares)[0]


def fresh_model(words: Tensor, seed: int) -> Any:
    """A model with the embeddings `words` [vocabulary, d_model] and blocks that add nothing yet.

    The embeddings are small, so steps of 1e-3 change them (T5's own have size 1 and hardly change).
    The final norm compensates the head's factor of d_model**-0.5.
    """
    torch.manual_seed(seed)
    model: Any = T5ForConditionalGeneration(CONFIG)
    with torch.no_grad():
        model.shared.weight.copy_(words * 0.02 * CONFIG.d_model**0.5)
        model.decoder.final_layer_norm.weight.fill_(CONFIG.d_model**0.5)
        for name, weight in model.named_parameters():
            if name.endswith((".o.weight", ".wo.weight")):
                weight.zero_()
        for stack in (model.encoder, model.decoder):
            _look_nearby(stack.block[0].layer[0].SelfAttention)
    return model.to(torch.bfloat16)


def _look_nearby(attention: Any) -> None:
    """Position biases that fall with distance, with another slope per head (Press et al. 2021).

    With steps of 1e-3, training alone would take thousands of steps to prefer near tokens. In the
    encoder two heads start with attention to the previous token, two with the next token.
    """
    distance = torch.arange(-128, 129)
    buckets = attention._relative_position_bucket(
        distance,
        bidirectional=not attention.is_decoder,
        num_buckets=attention.relative_attention_num_buckets,
        max_distance=attention.relative_attention_max_distance,
    )
    bias = attention.relative_attention_bias.weight
    slopes = 2.0 ** -torch.arange(1, attention.n_heads + 1)
    for offset, bucket in zip(distance.tolist(), buckets.tolist(), strict=True):
        bias[bucket] = -min(abs(offset), 32) * slopes
        if not attention.is_decoder:
            bias[bucket, :2] = 0.0 if offset == -1 else -4.0
            bias[bucket, 2:4] = 0.0 if offset == 1 else -4.0


def save_state(folder: Path, step: int, optimizer: MasterWeights) -> None:
    """Writes state.pt, which an interrupted run continues from."""
    aside = folder / "state.pt.part"
    torch.save({"step": step, "optimizer": optimizer.state_dict()}, aside)
    os.replace(aside, folder / "state.pt")


def save_checkpoint(folder: Path, optimizer: MasterWeights, tokenizer_folder: Path) -> None:
    """Writes the checkpoint; the weights come last, so new weights mean a complete checkpoint."""
    model: Any = T5ForConditionalGeneration(CONFIG)
    model.load_state_dict(optimizer.weights(), strict=False)
    model.tie_weights()
    aside = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    model.to(torch.float16).save_pretrained(aside)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer_folder / name, aside / name)
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(aside.iterdir(), key=lambda file: file.name == WEIGHTS):
        os.replace(file, folder / file.name)
    aside.rmdir()


def finished(work: Path, out: Path, steps: int) -> bool:
    """Whether the checkpoint was made from the state after the last step."""
    state, weights = work / "state.pt", out / WEIGHTS
    if not (state.exists() and weights.exists()):
        return False
    newer = weights.stat().st_mtime_ns >= state.stat().st_mtime_ns
    return newer and torch.load(state, weights_only=True, mmap=True)["step"] >= steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", type=Path, default=Path("models/en-de-draft"))
    parser.add_argument("--work", type=Path, default=Path("build/en-de-training"))
    parser.add_argument("--steps", type=int, default=1250)
    parser.add_argument("--tokens", type=int, default=4096, help="target tokens of a step")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--evaluate-every", type=int, default=500)
    arguments = parser.parse_args()
    train(arguments)


def train(arguments: argparse.Namespace) -> None:
    """Trains until `arguments.steps`, from the last state if there is one."""
    work: Path = arguments.work
    if finished(work, arguments.out, arguments.steps):
        print(f"{arguments.out} is finished", flush=True)
        return
    work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(arguments.seed)
    tokenizer = Tokenizer.from_file(str(arguments.tokenizer / "tokenizer.json"))
    corpora = {
        name: read_pairs(file, tokenizer)
        for name in SHARES
        if (file := arguments.corpus / f"{name}.tsv").exists()
    }
    print({name: len(pairs) for name, pairs in corpora.items()}, flush=True)
    table = lexicon(_sample(corpora), CONFIG.vocab_size)
    validation = (arguments.corpus / "descriptions-valid.tsv").read_text("utf-8").splitlines()
    valid_pairs = read_pairs(arguments.corpus / "descriptions-valid.tsv", tokenizer)
    rng = random.Random(arguments.seed)
    streams = {n: batches(p, table, arguments.tokens, rng) for n, p in corpora.items()}
    valid = list(itertools.islice(batches(valid_pairs, table, 4096, random.Random(0)), 4))

    model = fresh_model(embeddings(table, CONFIG.d_model), arguments.seed)
    optimizer = MasterWeights(model, rate=arguments.rate, decay=0.05)
    first = 0
    if (work / "state.pt").exists():
        state = torch.load(work / "state.pt", weights_only=True)
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
        rng.seed(arguments.seed + first)
    began, seen = time.monotonic(), 0
    running = [0.0, 0.0]
    for step in range(first, arguments.steps):
        rate = rate_at(step, arguments.steps, arguments.rate)
        batch = next(streams[_draw_corpus(list(streams), rate / arguments.rate, rng)])
        model.train()
        loss, guide = losses(model, batch, CONFIG.dropout_rate)
        (loss + guide).backward()
        optimizer.step(rate)
        seen += batch.tokens
        running = [0.98 * running[0] + 0.02 * loss.item(), 0.98 * running[1] + 0.02 * guide.item()]
        done = step + 1
        if done % 25 == 0:
            spent = time.monotonic() - began
            scale = 1 - 0.98 ** (done - first)
            left = spent / (done - first) * (arguments.steps - done)
            print(
                f"{done}/{arguments.steps} loss {running[0] / scale:.3f} guide "
                f"{running[1] / scale:.3f} {seen / spent:.0f} tokens/s {left / 60:.0f} min left",
                flush=True,
            )
        if done % 100 == 0 or done == arguments.steps:
            save_state(work, done, optimizer)
        if done % arguments.evaluate_every == 0 or done == arguments.steps:
            model.eval()
            row = {"step": done, "loss": validation_loss(model, valid)}
            print(json.dumps(row | scores(model, tokenizer, validation)), flush=True)
    save_checkpoint(arguments.out, optimizer, arguments.tokenizer)


def scores(model: Any, tokenizer: Tokenizer, validation: list[str]) -> dict[str, float]:
    """chrF and BLEU of the model's translations of "English\tGerman" lines; prints a few."""
    english, german = zip(*(line.split("\t") for line in validation), strict=True)
    made = translate(model, tokenizer, list(english))
    for i in range(0, 60, 10):
        print("   ", english[i], "→", made[i], flush=True)
    return {
        "chrf": sacrebleu.corpus_chrf(made, [list(german)]).score,
        "bleu": sacrebleu.corpus_bleu(made, [list(german)]).score,
    }


def _sample(corpora: dict[str, list[Pair]]) -> list[Pair]:
    """The pairs from which the alignment is learned: short ones, as many as fit in memory."""
    pairs = [p for pairs in corpora.values() for p in pairs if max(map(len, p)) <= 80]
    return random.Random(0).sample(pairs, min(len(pairs), 120_000))


if __name__ == "__main__":
    main()
