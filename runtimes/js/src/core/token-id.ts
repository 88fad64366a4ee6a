// Token ids of a model are the whole numbers below the number of its tokens.

/** A test of whether a number is the id of one of `size` tokens. */
export function isIdOf(size: number): (token: number) => boolean {
  return (token) => Number.isInteger(token) && token >= 0 && token < size;
}
