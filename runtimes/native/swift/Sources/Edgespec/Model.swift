import CEdgespec

/// A call that failed; `message` says why in one line.
public struct EdgespecError: Error, CustomStringConvertible {
    public let status: edgespec_status
    public let message: String
    public var description: String { message }

    init(_ status: edgespec_status) {
        self.status = status
        message = String(cString: edgespec_message())
    }

    init(usage message: String) {
        status = EDGESPEC_USAGE
        self.message = message
    }
}

func check(_ status: edgespec_status) throws {
    if status != EDGESPEC_OK { throw EdgespecError(status) }
}

/// Calls `body` with a text as the library takes it, which ends at a zero.
func withText<Result>(_ text: String, _ what: String, _ body: (UnsafePointer<CChar>) throws -> Result) throws -> Result {
    if text.utf8.contains(0) { throw EdgespecError(usage: "\(what) has the character U+0000; leave it out") }
    return try text.withCString(body)
}

/// A loaded pair. It never changes: threads may share it.
public final class Model: @unchecked Sendable {
    let handle: OpaquePointer

    /// The version of edgespec that the library is part of.
    public static var version: String { String(cString: edgespec_version()) }

    /// Opens the folder that `edgespec export` wrote.
    ///
    /// - Parameters:
    ///   - onnxruntime: file of ONNX Runtime's library; nil: its usual name, where the system looks.
    ///   - configure: changes the options of the load.
    public init(
        folder: String, onnxruntime: String? = nil, configure: (inout edgespec_load_options) -> Void = { _ in }
    ) throws {
        guard edgespec_abi() == UInt32(EDGESPEC_ABI) else {
            throw EdgespecError(
                usage: "libedgespec has the ABI \(edgespec_abi()) and this binding was compiled for "
                    + "\(EDGESPEC_ABI); ship both of one version")
        }
        var options = edgespec_load_options()
        edgespec_load_options_defaults(&options)
        configure(&options)
        var made: OpaquePointer?
        try withText(folder, "the folder") { path in
            guard let onnxruntime else { return try check(edgespec_load(path, &options, &made)) }
            try withText(onnxruntime, "onnxruntime") { library in
                options.onnxruntime = library
                try check(edgespec_load(path, &options, &made))
            }
        }
        handle = made!
    }

    deinit { edgespec_close(handle) }

    /// A session, with the memory of its caches.
    public func openSession() throws -> Session { try Session { edgespec_open_session(handle, &$0) } }

    /// A batch of so many texts at once.
    public func openBatch(_ texts: Int) throws -> Batch { try Batch(handle, texts) }

    /// A saved session, which goes on with its text as the saved one did: `Session.rest`.
    public func loadSession(_ file: String) throws -> Session {
        try withText(file, "the file") { path in try Session { edgespec_load_session(handle, path, &$0) } }
    }

    /// What a pair will take, from its manifest alone: its weights, and the caches of a session when they are full.
    public static func estimate(
        folder: String, configure: (inout edgespec_load_options) -> Void = { _ in }
    ) throws -> (weights: UInt64, caches: UInt64) {
        var options = edgespec_load_options()
        edgespec_load_options_defaults(&options)
        configure(&options)
        var memory = edgespec_memory()
        memory.size = MemoryLayout<edgespec_memory>.size
        try withText(folder, "the folder") { path in try check(edgespec_estimate(path, &options, &memory)) }
        return (memory.weights, memory.caches)
    }

    /// Token ids of a text.
    public func encode(_ text: String) throws -> [Int64] {
        try withText(text, "the text") { bytes in
            var count = 0
            try check(edgespec_encode(handle, bytes, nil, 0, &count))
            var tokens = [Int64](repeating: 0, count: count)
            try check(edgespec_encode(handle, bytes, &tokens, count, &count))
            return tokens
        }
    }

    /// The text of token ids, without special tokens.
    public func decode(_ tokens: [Int64]) throws -> String {
        var count = 0
        try check(edgespec_decode(handle, tokens, tokens.count, nil, 0, &count))
        var text = [CChar](repeating: 0, count: count)
        try check(edgespec_decode(handle, tokens, tokens.count, &text, count, &count))
        return String(decoding: text.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
