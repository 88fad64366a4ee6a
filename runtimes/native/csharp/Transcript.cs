using System;
using System.Collections;
using System.Collections.Generic;
using System.Runtime.InteropServices;

namespace Edgespec
{
    /// A part of a transcript, or its end, which has no text; and how far the transcript is.
    public sealed class Segment
    {
        internal Segment(Native.Segment made)
        {
            Start = made.start;
            End = made.end;
            Text = Native.Text(made.text, (int)made.text_bytes);
            Tokens = new long[(int)made.count];
            if (Tokens.Length > 0) Marshal.Copy(made.tokens, Tokens, 0, Tokens.Length);
            Temperature = made.temperature;
            Logprob = made.logprob;
            Compression = made.compression;
            NoSpeech = made.no_speech;
            Language = Native.Text(made.language);
            LanguageProbability = made.language_probability;
            Seconds = made.seconds;
            Calls = made.calls;
            Drafted = made.drafted;
            Accepted = made.accepted;
            Ended = made.ended != 0;
        }

        /// Seconds from the beginning of the sound.
        public double Start { get; }
        public double End { get; }

        /// Without white space around it.
        public string Text { get; }

        /// With timestamps.
        public long[] Tokens { get; }

        /// Of its window: of its text; mean log-probability of a token; how many times smaller zlib makes the
        /// text; probability that nothing is said.
        public double Temperature { get; }
        public double Logprob { get; }
        public double Compression { get; }
        public double NoSpeech { get; }

        /// Its code; empty until it is known. The probability is 0 unless it was found.
        public string Language { get; }
        public double LanguageProbability { get; }

        /// Of the sound that were read.
        public double Seconds { get; }

        /// Of the target; tokens that were proposed, and those of them that stayed.
        public long Calls { get; }
        public long Drafted { get; }
        public long Accepted { get; }

        /// All was said, and this is no segment.
        public bool Ended { get; }
    }

    /// The segments of a transcript, made as they are asked for, once.
    public sealed class Transcript : IEnumerable<Segment>
    {
        private readonly Session session;

        internal Transcript(Session session)
        {
            this.session = session;
        }

        /// The latest segment that was made, or the end; null before the first.
        public Segment Latest { get; private set; }

        public IEnumerator<Segment> GetEnumerator()
        {
            while (true)
            {
                Latest = session.NextSegment(this);
                if (Latest.Ended) yield break;
                yield return Latest;
            }
        }

        IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();
    }
}
