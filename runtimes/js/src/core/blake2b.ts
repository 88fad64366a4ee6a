// BLAKE2b (RFC 7693) of a short text: the hash that random draws are made of.
//
// 64-bit words are pairs of 32-bit halves, the low one first: BigInt would be a hundred times slower.

const BLOCK = 128; // bytes; one is enough for "seed:emitted:draw"
const ROUNDS = 12;

// prettier-ignore
const INITIAL = Uint32Array.of(
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
  0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
);
// The order of the message's words in each round; the last two rounds repeat the first two.
const ORDER = [
  "0123456789abcdef",
  "ea489fd61c02b753",
  "b8c052fdae367194",
  "7931dcbe265a40f8",
  "905724afe1bc683d",
  "2c6a0b834d75fe19",
  "c51fed4a0763928b",
  "db7ec13950f4862a",
  "6fe9b308c2d714a5",
  "a2847615fb9e3cd0",
].map((digits) => Array.from(digits, (digit) => parseInt(digit, 16)));
// The words a, b, c, d that each of a round's eight mixings works on: columns, then diagonals.
const MIXINGS = ["048c", "159d", "26ae", "37bf", "05af", "16bc", "278d", "349e"].map((digits) =>
  Array.from(digits, (digit) => parseInt(digit, 16)),
);

/**
 * The digest as little-endian integers of 32 bits.
 *
 * @param text of at most 128 bytes.
 * @param digestSize in bytes, a multiple of 4 up to 64.
 */
export function blake2b(text: string, digestSize: number): readonly number[] {
  const block = new Uint8Array(BLOCK);
  const { read, written } = new TextEncoder().encodeInto(text, block);
  if (read < text.length) throw new RangeError(`the text is longer than ${BLOCK} bytes`);
  const view = new DataView(block.buffer);
  const message = Uint32Array.from({ length: 32 }, (_, index) => view.getUint32(4 * index, true));
  const parameters = 0x01010000 ^ digestSize; // no key, sequential mode
  const initial = INITIAL.slice();
  initial[0]! ^= parameters;
  const state = Uint32Array.of(...initial, ...INITIAL);
  state[24]! ^= written; // bytes so far
  for (const half of [28, 29]) state[half] = ~state[half]!; // the last block
  for (let round = 0; round < ROUNDS; round++) mixRound(state, message, ORDER[round % ORDER.length]!);
  const half = (index: number) => (initial[index]! ^ state[index]! ^ state[index + 16]!) >>> 0;
  return Array.from({ length: digestSize / 4 }, (_, index) => half(index));
}

function mixRound(state: Uint32Array, message: Uint32Array, order: readonly number[]): void {
  for (const [index, [a, b, c, d]] of MIXINGS.entries()) {
    add(state, a!, state, b!);
    add(state, a!, message, order[2 * index]!);
    xorRotated(state, d!, a!, 32);
    add(state, c!, state, d!);
    xorRotated(state, b!, c!, 24);
    add(state, a!, state, b!);
    add(state, a!, message, order[2 * index + 1]!);
    xorRotated(state, d!, a!, 16);
    add(state, c!, state, d!);
    xorRotated(state, b!, c!, 63);
  }
}

/** Adds word `from` of `other` to word `to`, modulo 2^64. */
function add(words: Uint32Array, to: number, other: Uint32Array, from: number): void {
  const low = words[2 * to]! + other[2 * from]!;
  words[2 * to] = low;
  words[2 * to + 1] = words[2 * to + 1]! + other[2 * from + 1]! + (low >= 2 ** 32 ? 1 : 0);
}

/** word `to` = (word `to` xor word `from`), rotated right by `bits`: 16 to 63. */
function xorRotated(words: Uint32Array, to: number, from: number, bits: number): void {
  let low = words[2 * to]! ^ words[2 * from]!;
  let high = words[2 * to + 1]! ^ words[2 * from + 1]!;
  if (bits >= 32) [low, high, bits] = [high, low, bits - 32];
  words[2 * to] = bits === 0 ? low : (low >>> bits) | (high << (32 - bits));
  words[2 * to + 1] = bits === 0 ? high : (high >>> bits) | (low << (32 - bits));
}
