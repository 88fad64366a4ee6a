// Figures as people read them.

/** "26.8 tokens/s"; null where there is none. */
export function speed(tokensPerSecond: number | null): string | null {
  return tokensPerSecond === null ? null : `${tokensPerSecond.toFixed(tokensPerSecond < 100 ? 1 : 0)} tokens/s`;
}

/** "×1.7": how many times as fast as plain decoding; null where one of the two is not known. */
export function gain(tokensPerSecond: number | null, plain: number | null): string | null {
  return tokensPerSecond === null || plain === null ? null : `×${(tokensPerSecond / plain).toFixed(1)}`;
}
