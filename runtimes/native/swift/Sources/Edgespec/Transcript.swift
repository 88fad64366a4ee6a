import CEdgespec
import Dispatch

/// How a sound is transcribed: the numbers of edgespec_transcript_options, and what it points to as values of Swift.
public struct TranscriptOptions {
    /// All that is no list or text; its fields are described in edgespec.h.
    public var numbers = edgespec_transcript_options()
    /// Code of the spoken language; empty: found in the first window with speech.
    public var language = ""
    /// Stands before the first window's text as if it had been said.
    public var prompt = ""
    /// Of the text: a window whose text is no good is decoded again at the next one.
    public var temperatures: [Double] = [0, 0.2, 0.4, 0.6, 0.8, 1]

    public init() { edgespec_transcript_options_defaults(&numbers) }

    /// Calls `body` with the structure that the library takes.
    func taken<Result>(_ body: (UnsafePointer<edgespec_transcript_options>) throws -> Result) throws -> Result {
        try withText(language, "language") { language in
            try withText(prompt, "prompt") { prompt in
                try temperatures.withUnsafeBufferPointer { temperatures in
                    var whole = numbers
                    (whole.language, whole.prompt) = (language, prompt)
                    (whole.temperatures, whole.temperatures_count) = (temperatures.baseAddress, temperatures.count)
                    return try withUnsafePointer(to: &whole, body)
                }
            }
        }
    }
}

/// A part of a transcript; and how far the transcript is.
public struct Segment: Sendable {
    /// Seconds from the beginning of the sound.
    public let start, end: Double
    /// Without white space around it.
    public let text: String
    /// With timestamps.
    public let tokens: [Int64]
    /// Of its window; edgespec.h describes them.
    public let temperature, logprob, compression, noSpeech: Double
    /// Its code, and its probability: 0 unless the language was found.
    public let language: String
    public let languageProbability: Double
    /// Of the sound that were read.
    public let seconds: Double
    /// Of the target; tokens that were proposed, and those of them that stayed.
    public let calls, drafted, accepted: Int64

    /// Nil at the end.
    init?(_ found: edgespec_segment) {
        if found.ended != 0 { return nil }
        (start, end, seconds) = (found.start, found.end, found.seconds)
        text = String(decoding: UnsafeRawBufferPointer(start: found.text, count: found.text_bytes), as: UTF8.self)
        tokens = Array(UnsafeBufferPointer(start: found.tokens, count: found.count))
        (temperature, logprob) = (found.temperature, found.logprob)
        (compression, noSpeech) = (found.compression, found.no_speech)
        (language, languageProbability) = (String(cString: found.language), found.language_probability)
        (calls, drafted, accepted) = (found.calls, found.drafted, found.accepted)
    }
}

/// The segments of a transcript, made as they are asked for, once: `for try await segment in transcript`. Each is made
/// on a thread of its own; a cancelled task ends the transcript.
public struct Transcript: AsyncSequence {
    public typealias Element = Segment
    let session: Session

    public func makeAsyncIterator() -> Segments { Segments(session: session) }

    public struct Segments: AsyncIteratorProtocol {
        let session: Session

        public mutating func next() async throws -> Segment? {
            let session = self.session
            return try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { continuation in
                    DispatchQueue.global().async { continuation.resume(with: Result { try pulledSegment(session) }) }
                }
            } onCancel: {
                session.cancel()
            }
        }
    }
}

extension Session {
    /// Begins the transcript of a sound: mono, 16,000 samples a second, about -1 to 1.
    public func beginTranscript(
        _ samples: [Float], _ options: TranscriptOptions = TranscriptOptions()
    ) throws -> Transcript {
        try options.taken { try check(edgespec_begin_transcript(handle, samples, samples.count, $0)) }
        return Transcript(session: self)
    }
}

private func pulledSegment(_ session: Session) throws -> Segment? {
    var found = edgespec_segment()
    found.size = MemoryLayout<edgespec_segment>.size
    try check(edgespec_next_segment(session.handle, &found))
    return Segment(found)
}
