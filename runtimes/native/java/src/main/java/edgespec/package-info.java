/**
 * libedgespec for Java and Kotlin: exact speculative decoding of exported pairs.
 *
 * <p>A {@link edgespec.Model} is loaded once and shared by threads; each {@link edgespec.Session} of
 * it makes one text after the other, pulled {@link edgespec.Piece} by piece.
 */
package edgespec;
