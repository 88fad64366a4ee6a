// What a target returns at each scored position for an EAGLE head; it grows with the text.

export class FeatureMemory {
  #values = new Float32Array(0);

  /** @param width values of a position. */
  constructor(readonly width: number) {}

  /**
   * Keeps the first `count` rows of `values` for the positions from `position` on.
   *
   * @param values float32 [at least count, width].
   */
  write(values: Float32Array, position: number, count: number): void {
    const end = (position + count) * this.width;
    if (end > this.#values.length) {
      const grown = new Float32Array(Math.max(end, 2 * this.#values.length));
      grown.set(this.#values);
      this.#values = grown;
    }
    this.#values.set(values.subarray(0, count * this.width), position * this.width);
  }

  /** Of the positions first … end − 1: float32 [end − first, width], a copy. */
  read(first: number, end: number): Float32Array {
    return this.#values.slice(first * this.width, end * this.width);
  }
}
