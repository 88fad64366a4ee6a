// Fractions of whole numbers, and JavaScript's operators on them.

/** A fraction in lowest terms with a positive denominator. */
export class Fraction {
  readonly over: bigint;
  readonly under: bigint;

  constructor(over: bigint, under = 1n) {
    if (under === 0n) throw new RangeError("division by zero");
    const divisor = greatestCommonDivisor(over, under) * (under < 0n ? -1n : 1n);
    this.over = over / divisor;
    this.under = under / divisor;
  }

  /** The exact value of a double. */
  static of(value: unknown): Fraction {
    if (value instanceof Fraction) return value;
    let [over, under] = [Number(value), 1n];
    if (!Number.isFinite(over)) throw new RangeError(`${String(value)} is no fraction`);
    for (; !Number.isInteger(over); under *= 2n) over *= 2;
    return new Fraction(BigInt(over), under);
  }

  toString(): string {
    return `${this.over}/${this.under}`;
  }
}

function greatestCommonDivisor(a: bigint, b: bigint): bigint {
  [a, b] = [a < 0n ? -a : a, b < 0n ? -b : b];
  while (b > 0n) [a, b] = [b, a % b];
  return a;
}

type Operands = { a: Fraction; b: Fraction };

/** An operator that is JavaScript's own where neither operand is a fraction. */
function operator(native: (a: any, b: any) => any, exact: (operands: Operands) => unknown) {
  return (a: unknown, b: unknown): any =>
    a instanceof Fraction || b instanceof Fraction ? exact({ a: Fraction.of(a), b: Fraction.of(b) }) : native(a, b);
}

export const add = operator(
  (a, b) => a + b,
  ({ a, b }) => new Fraction(a.over * b.under + b.over * a.under, a.under * b.under),
);
export const subtract = operator(
  (a, b) => a - b,
  ({ a, b }) => new Fraction(a.over * b.under - b.over * a.under, a.under * b.under),
);
export const multiply = operator(
  (a, b) => a * b,
  ({ a, b }) => new Fraction(a.over * b.over, a.under * b.under),
);
export const divide = operator(
  (a, b) => a / b,
  ({ a, b }) => new Fraction(a.over * b.under, a.under * b.over),
);
export const less = operator(
  (a, b) => a < b,
  ({ a, b }) => a.over * b.under < b.over * a.under,
);
export const atMost = operator(
  (a, b) => a <= b,
  ({ a, b }) => a.over * b.under <= b.over * a.under,
);
export const greater = operator(
  (a, b) => a > b,
  ({ a, b }) => a.over * b.under > b.over * a.under,
);
export const atLeast = operator(
  (a, b) => a >= b,
  ({ a, b }) => a.over * b.under >= b.over * a.under,
);

/** `Math` for numbers and fractions; a fraction needs no rounding. */
export const FractionMath: any = Object.create(Math, {
  max: { value: (...values: unknown[]) => values.reduce((a, b) => (greater(b, a) ? b : a)) },
  min: { value: (...values: unknown[]) => values.reduce((a, b) => (less(b, a) ? b : a)) },
  fround: { value: (value: unknown) => (value instanceof Fraction ? value : Math.fround(Number(value))) },
});

/** What takes the place of a `Float32Array`: holds numbers of any kind, zeros at first. */
export class Numbers extends Array<unknown> {
  constructor(length: number) {
    super(length);
    this.fill(0);
  }

  static override get [Symbol.species]() {
    return Array;
  }
}
