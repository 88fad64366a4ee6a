// A time that depends on a count, from few measurements: complete, robust to spikes, up to date.

const WINDOW = 8; // measurements of a count
const AGE = 512; // rounds after which a measurement is forgotten
const FIRST = 2; // measurements in all before the curve is known
// A single measurement is believed up to this multiple of what others suggest, an older one up to this multiple
// of the latest.
const SPIKE = 1.25;

type Measurement = readonly [round: number, seconds: number];

/**
 * The seconds that something takes with a count of 1, 2, … of something.
 *
 * A count's time is the lower median of its latest measurements: spikes only make times longer. What
 * took much longer than the latest is forgotten: it was a spike, or the machine was busy. Counts without a
 * measurement follow the guess, scaled as the nearest measured counts are. A larger count takes no less
 * time than a smaller one. As `TimeCurve` of edgespec/costs/time_curve.py.
 */
export class TimeCurve {
  readonly #measured: Measurement[][] = []; // by count, the oldest first

  /** @param guess [counts] times in any unit, for counts from 1; only their ratios matter. */
  constructor(readonly guess: readonly number[]) {}

  /** Reports a measurement in a round; counts beyond the curve and times of 0 are ignored. */
  add(count: number, seconds: number, round: number): void {
    if (!(count >= 1 && count <= this.guess.length && seconds > 0)) return;
    const kept = (this.#measured[count] ?? []).filter(([, earlier]) => earlier <= SPIKE * seconds);
    this.#measured[count] = [...kept, [round, seconds] as const].slice(-WINDOW);
  }

  /** [counts] the times as of a round; null while nothing, or almost nothing, is measured. */
  seconds(round: number): number[] | null {
    const recent = this.#recent(round - AGE);
    const all = recent.flatMap(([, ratios]) => ratios);
    if (all.length < FIRST) return null;
    const typical = lowerMedian(all);
    const known = recent.map(([count, ratios]): Known => [
      count,
      ratios.length > 1 ? lowerMedian(ratios) : Math.min(ratios[0]!, SPIKE * typical),
    ]);
    const found = this.guess.map((guess, index) => guess * interpolated(known, index + 1));
    for (let index = found.length - 1; index > 0; index--)
      found[index - 1] = Math.min(found[index - 1]!, found[index]!);
    return found;
  }

  /** Measured over guessed times of each count, in increasing order, without older measurements. */
  #recent(oldest: number): (readonly [count: number, ratios: number[]])[] {
    return this.#measured.flatMap((times, count) => {
      const recent = times.filter(([round]) => round >= oldest);
      const ratios = recent.map(([, seconds]) => seconds / this.guess[count - 1]!);
      return ratios.length > 0 ? [[count, ratios] as const] : [];
    });
  }
}

type Known = readonly [count: number, ratio: number];

function lowerMedian(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[(values.length - 1) >> 1]!;
}

/** Linear between known counts (in increasing order), constant beyond them. */
function interpolated(known: readonly Known[], count: number): number {
  const below = known.findLast(([other]) => other <= count);
  const above = known.find(([other]) => other >= count);
  if (below === undefined || above === undefined || below[0] === above[0]) return (below ?? above)![1];
  return below[1] + ((count - below[0]) / (above[0] - below[0])) * (above[1] - below[1]);
}
