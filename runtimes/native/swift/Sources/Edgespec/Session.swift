#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif
import CEdgespec

/// A message of a conversation; the role is "system", "user" or "assistant".
public struct Message {
    public var role: String
    public var content: String

    public init(role: String, content: String) {
        self.role = role
        self.content = content
    }
}

/// Calls `body` with a conversation as the library takes it.
func withTurns<Result>(_ messages: [Message], _ body: ([edgespec_turn]) throws -> Result) throws -> Result {
    for one in messages where (one.role + one.content).utf8.contains(0) {
        throw EdgespecError(usage: "a message has the character U+0000; leave it out")
    }
    let strings = messages.flatMap { [strdup($0.role), strdup($0.content)] }
    defer { strings.forEach { free($0) } }
    return try body(stride(from: 0, to: strings.count, by: 2).map {
        edgespec_turn(role: UnsafePointer(strings[$0]), content: UnsafePointer(strings[$0 + 1]))
    })
}

/// One text after the other, with caches of its own. One task at a time may use it; `cancel` may be called by
/// any.
public final class Session: @unchecked Sendable {
    let handle: OpaquePointer

    init(_ open: (inout OpaquePointer?) -> edgespec_status) throws {
        var made: OpaquePointer?
        try check(open(&made))
        handle = made!
    }

    /// Another session with the same caches and text: `rest` goes on from here as this one does.
    public func fork() throws -> Session { try Session { edgespec_fork(handle, &$0) } }

    /// Writes caches and text to a file, whole or not at all; `Model.loadSession` opens it.
    public func save(_ file: String) throws {
        try withText(file, "the file") { path in try check(edgespec_save(handle, path)) }
    }

    /// What is still to come of the text that a fork or a loaded session goes on with.
    public func rest() -> Text { Text(self, 0) }

    /// Positions of the latest prompt that were read, and had to be; any task may ask.
    public func promptProgress() throws -> (read: Int64, toRead: Int64) {
        var (read, toRead): (Int64, Int64) = (0, 0)
        try check(edgespec_prompt_progress(handle, &read, &toRead))
        return (read, toRead)
    }

    deinit { edgespec_close_session(handle) }

    /// Begins a text that goes on from token ids; one that has not ended is dropped.
    public func begin(_ prompt: [Int64], _ options: Options = Options()) throws -> Text {
        var seed: UInt64 = 0
        try options.taken { try check(edgespec_begin(handle, prompt, prompt.count, $0, &seed)) }
        return Text(self, seed)
    }

    /// Begins a text that goes on from this one. Special tokens that it spells out are tokens.
    public func begin(_ prompt: String, _ options: Options = Options()) throws -> Text {
        var seed: UInt64 = 0
        try withText(prompt, "the prompt") { bytes in
            try options.taken { try check(edgespec_begin_text(handle, bytes, $0, &seed)) }
        }
        return Text(self, seed)
    }

    /// Begins the answer to a conversation, whose last message is a user's.
    public func begin(_ messages: [Message], _ options: Options = Options()) throws -> Text {
        var seed: UInt64 = 0
        try withTurns(messages) { turns in
            try options.taken { try check(edgespec_begin_chat(handle, turns, turns.count, $0, &seed)) }
        }
        return Text(self, seed)
    }

    /// Ends the text that is being made, from any task; another one may begin then.
    public func cancel() { edgespec_cancel(handle) }
}
