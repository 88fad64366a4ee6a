// Plain decoding, and speculative decoding (Leviathan, Kalman and Matias, 2022) with the same
// distribution. p is the target, q the draft.

// Probabilities from logits. At temperature 0 the arg-max has probability 1.
export function distribution(logits, temperature) {
  const best = argMax(logits);
  if (!Number.isFinite(logits[best]) || logits.some(Number.isNaN)) throw new Error("the model computes NaN or infinite logits");
  const p = new Float64Array(logits.length);
  if (temperature === 0) {
    p[best] = 1;
    return p;
  }
  let sum = 0;
  for (let i = 0; i < p.length; i++) {
    p[i] = Math.exp((logits[i] - logits[best]) / temperature);
    sum += p[i];
  }
  return p.map((value) => value / sum);
}

export async function* plain(pair, prompt, options = {}) {
  const { temperature = 0, maxNewTokens = 256, random = Math.random } = options;
  let pending = await pair.target.prefill(prompt, maxNewTokens);
  for (let left = roomFor(pair, maxNewTokens); left > 0; left--) {
    const [logits] = await pair.target.score([pending]);
    pending = draw(distribution(logits, temperature), random);
    yield { token: pending, drafted: false };
    if (pair.manifest.eos_token_ids.includes(pending)) return;
  }
}

// One target call a round: the draft proposes γ tokens, the target scores γ + 1 positions.
export async function* speculate(pair, prompt, options = {}) {
  const { temperature = 0, maxNewTokens = 256, gamma = 3, random = Math.random } = options;
  const { target, manifest, maxGamma } = pair;
  if (gamma > maxGamma) throw new Error(`γ is ${gamma}; this target is exact for at most ${maxGamma}`);
  const draft = new Draft(pair, temperature, random);
  const text = [await target.prefill(prompt, maxNewTokens)]; // the pending token, and all emitted since
  await draft.begin(prompt, maxNewTokens);
  let left = roomFor(pair, maxNewTokens);
  while (left > 0) {
    const { tokens, qs } = await draft.propose(text, Math.min(gamma, left - 1));
    const start = target.length;
    const rows = await target.score([text.at(-1), ...tokens]);
    const { accepted, next } = verify(tokens, qs, (row) => distribution(rows[row], temperature), random);
    const run = [...tokens.slice(0, accepted), next];
    for (const [index, token] of run.entries()) {
      text.push(token);
      left--;
      yield { token, drafted: index < accepted };
      if (manifest.eos_token_ids.includes(token)) return;
    }
    target.rewind(start + run.length);
  }
}

// Accepts each token with probability min(1, p/q); the first rejected one is replaced by a draw
// from norm(max(0, p − q)), and if none is rejected a bonus token comes from p.
export function verify(tokens, qs, ps, random = Math.random) {
  for (const [row, token] of tokens.entries()) {
    const [p, q] = [ps(row), qs[row]];
    if (!(random() * q[token] < p[token])) {
      const residual = p.map((value, i) => Math.max(0, value - q[i]));
      return { accepted: row, next: draw(residual, random) };
    }
  }
  return { accepted: tokens.length, next: draw(ps(tokens.length), random) };
}

class Draft {
  constructor({ draft, vocabulary, target, manifest }, temperature, random) {
    Object.assign(this, { model: draft, vocabulary, temperature, random });
    this.width = target.exported.vocab_size;
    this.ends = manifest.eos_token_ids;
  }

  async begin(prompt, room) {
    await this.model.prefill(this.#toDraftIds(prompt), room);
    this.start = this.model.length;
    this.cached = []; // the tokens of the text that are in the cache
  }

  async propose(text, gamma) {
    this.#rewind(text);
    let unseen = text.slice(this.cached.length);
    const [tokens, qs] = [[], []];
    while (tokens.length < gamma && this.model.length + unseen.length <= this.model.capacity) {
      const logits = (await this.model.score(this.#toDraftIds(unseen))).at(-1);
      this.cached.push(...unseen);
      const q = this.#distribution(logits);
      tokens.push(draw(q, this.random));
      qs.push(q);
      if (this.ends.includes(tokens.at(-1))) break;
      unseen = [tokens.at(-1)];
    }
    return { tokens, qs };
  }

  // Drops what the target rejected, and what an EAGLE head can now compute from the target's features.
  #rewind(text) {
    let common = 0;
    const limit = Math.min(this.cached.length, text.length - 1, this.model.validLength - this.start);
    while (common < limit && this.cached[common] === text[common]) common++;
    this.cached.length = common;
    this.model.rewind(this.start + common);
  }

  #toDraftIds(tokens) {
    return tokens.map((token) => this.vocabulary.toDraftIds[token]);
  }

  // q over the target's tokens. Logits of tokens that the target lacks are removed first.
  #distribution(logits) {
    const { toTargetIds } = this.vocabulary;
    const own = distribution(logits.subarray(0, toTargetIds.length), this.temperature);
    const q = new Float64Array(this.width);
    toTargetIds.forEach((token, id) => (q[token] = own[id]));
    return q;
  }
}

function roomFor({ target }, maxNewTokens) {
  return Math.min(maxNewTokens, target.capacity - target.length);
}

function argMax(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

// An index with a probability proportional to its weight.
function draw(weights, random) {
  let left = random() * weights.reduce((a, b) => a + b, 0);
  let last = 0;
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] > 0) {
      last = i;
      left -= weights[i];
      if (left < 0) return i;
    }
  }
  return last;
}
