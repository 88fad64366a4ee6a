// Claim: γ "auto" goes by what rounds take on this machine now, and no text depends on it.
//
// A machine with a clock of its own runs rounds of stated durations, as in tests/costs/test_measured_costs.py.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Adaptive, Confident } from "../src/core/controller.js";
import { Costs } from "../src/core/cost-model.js";
import { DraftingTimes, MeasuredCosts, Timed, VerificationTimes } from "../src/core/measured-costs.js";
import { Seeded } from "../src/core/randomness.js";
import { TimeCurve } from "../src/core/time-curve.js";
import { scriptedPair } from "./scripted-pair.js";

const STEP = 0.005; // seconds
const curveOf = (slope: number) => Array.from({ length: 17 }, (_, m) => 1 + slope * m);
const FAST = new Costs(curveOf(0.03), 0.08);
const STEEP = new Costs(curveOf(0.5), 0.08);
const SLOW_DRAFT = new Costs(FAST.verify, 1.5);

/** A target and a draft with stated costs, and the clock that they move. */
class Machine {
  length = 0;
  seconds = 0; // in the draft
  now = 0;
  tokens = 0;
  readonly drafted: number[] = [];
  readonly #draws = new Seeded(0).at(0);
  #prompt = 10 * STEP; // that the draft reads before its first token of a text

  constructor(
    public costs: Costs,
    public acceptance: number,
    readonly spike = 0, // probability that a round takes 20 steps more
  ) {}

  readonly clock = (): number => this.now;

  rounds(timed: Timed, count: number): void {
    for (let round = 0; round < count; round++) this.#round(timed);
  }

  #round(timed: Timed): void {
    const gamma = timed.gamma();
    let drafting = gamma * this.costs.draft * STEP;
    if (gamma > 0) [drafting, this.#prompt] = [drafting + this.#prompt, 0];
    this.seconds += drafting;
    const late = this.#draws.uniform() < this.spike ? 20 * STEP : 0;
    this.now += drafting + this.costs.verify[gamma]! * STEP + late;
    let accepted = 0;
    while (accepted < gamma && this.#draws.uniform() < this.acceptance) accepted++;
    timed.observe(gamma, Math.min(accepted + 1, gamma), accepted, 0);
    this.length += accepted + 1;
    this.tokens += accepted + 1;
    this.drafted.push(gamma);
  }
}

/** A controller that goes by the machine's clock and has this guess. */
function timedOn(machine: Machine, guess: Costs, adaptive: typeof Adaptive = Adaptive): Timed {
  const without = guess.withDraft(0);
  const verification = new VerificationTimes(without);
  const drafting = new DraftingTimes(machine, guess, without);
  return new Timed(
    new adaptive(new MeasuredCosts(guess, verification, drafting)),
    machine,
    verification,
    drafting,
    machine.clock,
  );
}

const zeros = (numbers: readonly number[]) => numbers.filter((number) => number === 0).length;
const mean = (numbers: readonly number[]) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

for (const adaptive of [Adaptive, Confident]) {
  test(`a slow draft is dropped within 10 rounds: ${adaptive.name}`, () => {
    const machine = new Machine(SLOW_DRAFT, 0.8);
    machine.rounds(timedOn(machine, FAST, adaptive), 200);
    assert.ok(mean(machine.drafted.slice(0, 10)) > 0);
    assert.ok(zeros(machine.drafted.slice(10)) >= 188, "two more tries, perhaps");
  });
}

test("a draft that became fast is taken up again", () => {
  const machine = new Machine(SLOW_DRAFT, 0.8);
  const timed = timedOn(machine, FAST);
  machine.rounds(timed, 50);
  assert.equal(machine.drafted.at(-1), 0);
  machine.costs = FAST;
  machine.rounds(timed, 700);
  assert.ok(Math.min(...machine.drafted.slice(-10)) >= 3);
});

for (const times of [1.6, 3]) {
  test(`drafting that ended in a dozen slow rounds of bad luck is taken up again: ${times} times as slow`, () => {
    const [first, ...others] = FAST.verify as [number, ...number[]];
    const slowed = new Costs([first, ...others.map((v) => v * times)], FAST.draft * times);
    const machine = new Machine(slowed, 0);
    const timed = timedOn(machine, FAST, Confident);
    machine.rounds(timed, 12);
    assert.equal(machine.drafted.at(-1), 0);
    [machine.costs, machine.acceptance] = [FAST, 1];
    machine.rounds(timed, 150);
    assert.ok(zeros(machine.drafted.slice(12 + 60)) <= 2, "plain steps that are timed");
  });
}

for (const [truth, acceptance] of [
  [SLOW_DRAFT, 1],
  [STEEP, 0],
  [FAST, 0],
] as const) {
  test(`a draft that does not pay is tried in 1.5 % of the rounds: ${truth.draft}, ${acceptance}`, () => {
    const machine = new Machine(truth, acceptance);
    machine.rounds(timedOn(machine, FAST, Confident), 1000);
    assert.ok(zeros(machine.drafted.slice(10)) >= 0.985 * 990);
  });
}

for (const guess of [FAST, STEEP]) {
  for (const truth of [FAST, STEEP]) {
    for (const acceptance of [0.1, 0.5, 0.9]) {
      const name = [guess, truth].map((costs) => (costs === FAST ? "fast" : "steep")).join(" guess, ");
      test(`the speed is at most 10 % below the best γ's: ${name} truth, acceptance ${acceptance}`, () => {
        const machine = new Machine(truth, acceptance);
        machine.rounds(timedOn(machine, guess), 3000);
        assert.ok((machine.tokens * STEP) / machine.now >= 0.9 * truth.best(acceptance)[1]);
      });
    }
  }
}

test("spikes change nothing", () => {
  const [calm, disturbed] = [0, 0.1].map((spike) => {
    const machine = new Machine(FAST, 0.7, spike);
    machine.rounds(timedOn(machine, FAST), 2000);
    return mean(machine.drafted);
  }) as [number, number];
  assert.ok(Math.abs(disturbed / calm - 1) < 0.15, `${calm} and ${disturbed}`);
});

test("a plain step is timed now and then", () => {
  const machine = new Machine(FAST, 0.9);
  machine.rounds(timedOn(machine, FAST), 1000);
  assert.ok(Math.abs(zeros(machine.drafted) - 1000 / 64) <= 1);
});

test("what happens between rounds does not count", () => {
  const machine = new Machine(FAST, 0.7);
  const verification = new VerificationTimes(FAST);
  const timed = new Timed(
    new Adaptive(new MeasuredCosts(FAST, verification, null)),
    machine,
    verification,
    null,
    machine.clock,
  );
  for (let round = 0; round < 20; round++) {
    machine.rounds(timed, 1);
    machine.now += 100;
  }
  assert.ok(Math.max(...verification.seconds()!) < 3 * STEP);
});

test("candidates are rows of the verification", () => {
  const machine = new Machine(FAST, 0.7);
  const verification = new VerificationTimes(FAST);
  const timed = new Timed(
    new Adaptive(new MeasuredCosts(FAST, verification, null)),
    machine,
    verification,
    null,
    machine.clock,
  );
  for (let round = 0; round < 4; round++) {
    timed.gamma();
    machine.now += 9 * STEP;
    timed.observe(2, 2, 2, 3);
  }
  assert.ok(Math.abs(verification.seconds()![5]! - 9 * STEP) < 1e-9);
});

const GUESS = [1, 1.1, 1.2, 1.3, 1.4];

/** The times that follow from (count, seconds), one a round. */
function times(...measured: readonly (readonly [count: number, seconds: number])[]): number[] | null {
  const curve = new TimeCurve(GUESS);
  for (const [round, [count, seconds]] of measured.entries()) curve.add(count, seconds, round);
  return curve.seconds(measured.length);
}

function assertClose(found: number[] | null, expected: readonly number[]): void {
  assert.ok(
    found !== null && found.every((value, index) => Math.abs(value / expected[index]! - 1) < 1e-9),
    `${found} instead of ${expected}`,
  );
}

test("a curve of times is unknown until the second measurement, and then complete", () => {
  assert.equal(times([1, 0.01]), null);
  assertClose(
    times([3, 0.012], [3, 0.012]),
    GUESS.map((guess) => guess / 100),
  );
  assertClose(times([1, 0.01], [1, 0.01], [3, 0.024], [3, 0.024]), [0.01, 0.0165, 0.024, 0.026, 0.028]);
});

test("a larger count takes no less time, and a lone measurement is believed a little", () => {
  assertClose(times([2, 0.02], [2, 0.02], [4, 0.013], [4, 0.013])!.slice(1, 4), [0.013, 0.013, 0.013]);
  assertClose([times([1, 0.01], [1, 0.01], [5, 1])![4]!], [0.014 * 1.25]);
});

test("counts beyond the curve and clocks that stand still are ignored", () => {
  assert.equal(times([6, 1], [0, 1], [1, 0], [2, -1]), null);
});

test("whatever the clock says, a text is the same", async () => {
  const answer = "abcabcabcabc abcabcabc abcabcabcabcabc";
  for (const [seed, options] of [{ draft: "ngram" }, { draft: "ngram", temperature: 1, seed: 3 }].entries()) {
    const texts = new Set<string>();
    const drafted = new Set<number>();
    for (let run = 0; run < 8; run++) {
      const draws = new Seeded(100 * seed + run).at(0);
      let now = 0;
      const clock = () => (now += draws.uniform() ** 8);
      const { text, stats } = await scriptedPair(() => answer, { clock }).pair.generate("say it", options as never);
      texts.add(text);
      drafted.add(stats.drafted);
    }
    assert.equal(texts.size, 1);
    assert.ok(drafted.size > 1, "γ follows the clock");
  }
});
