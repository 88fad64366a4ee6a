using System;

namespace Edgespec
{
    /// How a sound is transcribed; docs/reference/api.md says more. A limit may be NaN: none.
    public sealed class TranscriptOptions
    {
        /// Code of the spoken language; null: found in the first window with speech.
        public string Language = null;

        /// To English.
        public bool Translate = false;

        /// Let the model say when; without, a window is one segment.
        public bool Timestamps = true;

        /// The text of earlier windows is the beginning of the next one's.
        public bool UsePrevious = false;

        /// Stands before the first window's text as if it had been said; null: nothing.
        public string Prompt = null;

        /// Of the text: a window whose text is no good is decoded again at the next one.
        public double[] Temperatures = { 0, 0.2, 0.4, 0.6, 0.8, 1 };

        /// Probability of silence above which an improbable window is left out.
        public double NoSpeech = 0.6;

        /// Mean log-probability of a token below which a text is improbable.
        public double MinLogprob = -1;

        /// How many times smaller zlib makes a text that does not repeat itself.
        public double MaxCompression = 2.4;
        public Draft Draft = Draft.Both;

        /// Tokens drafted a round; -1: as many as pay.
        public long Gamma = -1;

        /// A sound has one transcript for each.
        public ulong Seed = 0;

        internal Native.TranscriptOptions Taken(Memory memory)
        {
            var options = new Native.TranscriptOptions();
            Native.edgespec_transcript_options_defaults(ref options);
            options.language = memory.Text(Language, "language");
            options.translate = Translate ? 1 : 0;
            options.timestamps = Timestamps ? 1 : 0;
            options.use_previous = UsePrevious ? 1 : 0;
            options.prompt = memory.Text(Prompt, "prompt");
            options.temperatures = memory.Doubles(Temperatures);
            options.temperatures_count = Native.Count(Temperatures);
            options.no_speech = NoSpeech;
            options.min_logprob = MinLogprob;
            options.max_compression = MaxCompression;
            options.draft = (int)Draft;
            options.gamma = Gamma;
            options.seed = Seed;
            return options;
        }
    }
}
