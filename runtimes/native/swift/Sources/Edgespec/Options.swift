#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif
import CEdgespec

/// How a text is made: the numbers of edgespec_options, and what it points to as values of Swift.
public struct Options {
    /// All that is no list or text; its fields are described in edgespec.h.
    public var numbers = edgespec_options()
    public var logitBias: [Int64: Double] = [:]
    public var stopTokens: [Int64] = []
    public var stop: [String] = []
    /// Where the earlier answers of a conversation of token ids are, as edgespec.h says: what the caches hold of
    /// it is then not computed again. nil: it is.
    public var answers: [Range<Int64>]?
    /// Draws the same text again; nil: a new one.
    public var seed: UInt64?

    public init() { edgespec_options_defaults(&numbers) }

    /// Calls `body` with the structure that the library takes.
    func taken<Result>(_ body: (UnsafePointer<edgespec_options>) throws -> Result) throws -> Result {
        for one in stop where one.utf8.contains(0) {
            throw EdgespecError(usage: "stop has the character U+0000; leave it out")
        }
        let strings = stop.map { strdup($0) }
        defer { strings.forEach { free($0) } }
        let pointers = strings.map { UnsafePointer($0) }
        let biases = logitBias.map { edgespec_bias(token: $0.key, bias: $0.value) }
        // One more than there are, so that none yet is no null pointer.
        let ranges = (answers ?? []).map { edgespec_range(begin: $0.lowerBound, end: $0.upperBound) } + [edgespec_range()]
        var all = numbers
        all.has_seed = seed == nil ? 0 : 1
        all.seed = seed ?? 0
        return try biases.withUnsafeBufferPointer { biases in
            try stopTokens.withUnsafeBufferPointer { tokens in
                try pointers.withUnsafeBufferPointer { stop in
                    try ranges.withUnsafeBufferPointer { ranges in
                        (all.logit_bias, all.logit_bias_count) = (biases.baseAddress, biases.count)
                        (all.stop_tokens, all.stop_tokens_count) = (tokens.baseAddress, tokens.count)
                        (all.stop, all.stop_count) = (stop.baseAddress, stop.count)
                        (all.answers, all.answers_count) = (answers == nil ? nil : ranges.baseAddress, answers?.count ?? 0)
                        return try withUnsafePointer(to: &all, body)
                    }
                }
            }
        }
    }
}
