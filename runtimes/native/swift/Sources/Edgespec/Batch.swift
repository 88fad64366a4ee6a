import CEdgespec

/// A text of a batch: its number, counted from 0, and what draws the same text again.
public struct AddedText: Sendable {
    public let text: Int64
    public let seed: UInt64
}

/// What came next of the texts of a batch.
public struct TextPiece {
    /// The number of the text.
    public let text: Int64
    /// A failure ends this text alone; the others go on.
    public let piece: Result<Piece, EdgespecError>
}

/// Several texts at once, in calls that they share: each is as it is alone. One task at a time may use it;
/// `progress` and `cancel` may be called by any.
public final class Batch: @unchecked Sendable {
    let handle: OpaquePointer

    init(_ model: OpaquePointer, _ texts: Int) throws {
        var made: OpaquePointer?
        try check(edgespec_open_batch(model, max(texts, 0), &made))
        handle = made!
    }

    deinit { edgespec_close_batch(handle) }

    /// Adds a text that goes on from token ids, beside those that are being made.
    public func add(_ prompt: [Int64], _ options: Options = Options()) throws -> AddedText {
        try added(options) { edgespec_batch_add(handle, prompt, prompt.count, $0, &$1, &$2) }
    }

    /// Adds a text that goes on from this one. Special tokens that it spells out are tokens.
    public func add(_ prompt: String, _ options: Options = Options()) throws -> AddedText {
        try withText(prompt, "the prompt") { bytes in
            try added(options) { edgespec_batch_add_text(handle, bytes, $0, &$1, &$2) }
        }
    }

    /// Adds the answer to a conversation, whose last message is a user's.
    public func add(_ messages: [Message], _ options: Options = Options()) throws -> AddedText {
        try withTurns(messages) { turns in
            try added(options) { edgespec_batch_add_chat(handle, turns, turns.count, $0, &$1, &$2) }
        }
    }

    /// The next piece of any text; nil if none is being made.
    public func next() throws -> TextPiece? {
        var (text, made) = (Int64(-1), edgespec_piece())
        made.size = MemoryLayout<edgespec_piece>.size
        let status = edgespec_batch_next(handle, &text, &made)
        if text < 0 {
            try check(status)
            return nil
        }
        let piece = status == EDGESPEC_OK ? .success(Piece(made)) : Result<Piece, EdgespecError>.failure(EdgespecError(status))
        return TextPiece(text: text, piece: piece)
    }

    /// Positions of a text's prompt that were read, and had to be; any task may ask.
    public func progress(_ text: Int64) throws -> (read: Int64, toRead: Int64) {
        var (read, toRead): (Int64, Int64) = (0, 0)
        try check(edgespec_batch_progress(handle, text, &read, &toRead))
        return (read, toRead)
    }

    /// Takes a text out, from any task: what comes next of it is a failure.
    public func cancel(_ text: Int64) { edgespec_batch_cancel(handle, text) }

    private func added(
        _ options: Options,
        _ add: (UnsafePointer<edgespec_options>, inout Int64, inout UInt64) -> edgespec_status
    ) throws -> AddedText {
        var (text, seed): (Int64, UInt64) = (0, 0)
        try options.taken { try check(add($0, &text, &seed)) }
        return AddedText(text: text, seed: seed)
    }
}
