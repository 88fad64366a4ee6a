// Speculative decoding (Leviathan, Kalman and Matias, 2022), and plain decoding with the same law.
// p is the target, q the draft.

// Logits to probabilities: the arg-max alone at temperature 0.
export function law(logits, temperature) {
  const best = argMax(logits);
  if (!Number.isFinite(logits[best]) || logits.some(Number.isNaN)) throw new Error("the model computes no numbers");
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
    pending = draw(law(logits, temperature), random);
    yield { token: pending, drafted: false };
    if (pair.manifest.eos_token_ids.includes(pending)) return;
  }
}

// One target call a round: the draft proposes γ tokens, the target scores γ + 1 positions.
export async function* speculate(pair, prompt, options = {}) {
  const { temperature = 0, maxNewTokens = 256, gamma = 3, random = Math.random } = options;
  const { target, manifest, longest } = pair;
  if (gamma > longest) throw new Error(`γ is ${gamma}; this target is exact for at most ${longest}`);
  const draft = new Draft(pair, temperature, random);
  const text = [await target.prefill(prompt, maxNewTokens)]; // pending, and all emitted since
  await draft.begin(prompt, maxNewTokens);
  let left = roomFor(pair, maxNewTokens);
  while (left > 0) {
    const { tokens, qs } = await draft.propose(text, Math.min(gamma, left - 1));
    const start = target.length;
    const rows = await target.score([text.at(-1), ...tokens]);
    const { accepted, next } = verify(tokens, qs, (row) => law(rows[row], temperature), random);
    const run = [...tokens.slice(0, accepted), next];
    for (const [place, token] of run.entries()) {
      text.push(token);
      left--;
      yield { token, drafted: place < accepted };
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
    await this.model.prefill(this.#shown(prompt), room);
    this.start = this.model.length;
    this.cached = []; // tokens of the text in the cache
  }

  async propose(text, gamma) {
    this.#rewind(text);
    let unseen = text.slice(this.cached.length);
    const [tokens, qs] = [[], []];
    while (tokens.length < gamma && this.model.length + unseen.length <= this.model.capacity) {
      const logits = (await this.model.score(this.#shown(unseen))).at(-1);
      this.cached.push(...unseen);
      const q = this.#law(logits);
      tokens.push(draw(q, this.random));
      qs.push(q);
      if (this.ends.includes(tokens.at(-1))) break;
      unseen = [tokens.at(-1)];
    }
    return { tokens, qs };
  }

  // Drops what the target rejected, and what it has seen itself by now.
  #rewind(text) {
    let common = 0;
    const most = Math.min(this.cached.length, text.length - 1, this.model.settled - this.start);
    while (common < most && this.cached[common] === text[common]) common++;
    this.cached.length = common;
    this.model.rewind(this.start + common);
  }

  #shown(tokens) {
    return tokens.map((token) => this.vocabulary.inputs[token]);
  }

  // q over the target's tokens, of those that both have: what the target lacks is cut off first.
  #law(logits) {
    const { outputs } = this.vocabulary;
    const own = law(logits.subarray(0, outputs.length), this.temperature);
    const q = new Float64Array(this.width);
    outputs.forEach((token, number) => (q[token] = own[number]));
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
