import CEdgespec
import Dispatch

/// What one call of the target brought, or the text's end, which has no tokens.
public struct Piece: Sendable {
    public let tokens: [Int64]
    /// What became final with the tokens, or with the end.
    public let text: String
    /// Of the tokens; empty unless asked for.
    public let logprobs: [Double]
    /// Tokens that were proposed; those that the rule looked at; those of them that stayed.
    public let drafted, evaluated, accepted: Int64
    /// Nil but for the last piece.
    public let ending: edgespec_ending?

    init(_ made: edgespec_piece) {
        tokens = Array(UnsafeBufferPointer(start: made.tokens, count: made.count))
        logprobs = Array(UnsafeBufferPointer(start: made.logprobs, count: made.logprobs == nil ? 0 : made.count))
        let bytes = UnsafeRawBufferPointer(start: made.text, count: made.text_bytes)
        text = String(decoding: bytes, as: UTF8.self)
        (drafted, evaluated, accepted) = (made.drafted, made.evaluated, made.accepted)
        ending = made.ending == 0 ? nil : edgespec_ending(rawValue: edgespec_ending.RawValue(made.ending))
    }
}

/// The pieces of a text, made as they are asked for, once: `for try await piece in text`. Each is made on a
/// thread of its own; a cancelled task ends the text.
public struct Text: AsyncSequence {
    public typealias Element = Piece
    let session: Session
    /// Draws the same text again.
    public let seed: UInt64

    init(_ session: Session, _ seed: UInt64) { (self.session, self.seed) = (session, seed) }

    public func makeAsyncIterator() -> Pieces { Pieces(session: session) }

    public struct Pieces: AsyncIteratorProtocol {
        let session: Session
        var ended = false

        public mutating func next() async throws -> Piece? {
            if ended { return nil }
            let session = self.session
            let piece = try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { continuation in
                    DispatchQueue.global().async { continuation.resume(with: Result { try pulled(session) }) }
                }
            } onCancel: {
                session.cancel()
            }
            ended = piece.ending != nil
            return piece
        }
    }
}

private func pulled(_ session: Session) throws -> Piece {
    var made = edgespec_piece()
    made.size = MemoryLayout<edgespec_piece>.size
    try check(edgespec_next(session.handle, &made))
    return Piece(made)
}
