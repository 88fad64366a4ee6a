using System;
using System.Collections.Generic;
using System.Linq;

namespace Edgespec
{
    /// Who decides which drafted tokens stay. All are exact.
    public enum Rule
    {
        /// Coupled when sampling; greedy text is the same with each.
        Default = 0,
        /// The text is the plain text of its seed, token by token.
        Coupled = 1,
        Token = 2,
        Block = 3,
    }

    /// Who drafts. Greedy text is the same with each.
    public enum Draft
    {
        /// Plain decoding.
        None = 0,
        /// The draft model; lookup, where the pair has none.
        Model = 1,
        /// What followed the same tokens earlier, in the prompt or the text.
        Lookup = 2,
        /// In each round, the one of both that is expected to bring more.
        Both = 3,
    }

    /// How a pair is opened.
    public sealed class LoadOptions
    {
        /// File of ONNX Runtime's library, 1.25 or newer; null: its usual name, where the system looks.
        public string Onnxruntime = null;

        /// Which exported variants; null: the first.
        public string TargetFormat = null;
        public string DraftFormat = null;

        /// Of each model; 0: all physical cores.
        public int Threads = 0;

        /// Speculate even where the target was not found row-invariant.
        public bool AllowInexact = false;

        /// Positions of a session's caches; 0: the exporter's choice.
        public long Capacity = 0;

        internal Native.LoadOptions Taken(Memory memory)
        {
            var options = new Native.LoadOptions();
            Native.edgespec_load_options_defaults(ref options);
            options.onnxruntime = memory.Text(Onnxruntime, "Onnxruntime");
            options.target_format = memory.Text(TargetFormat, "TargetFormat");
            options.draft_format = memory.Text(DraftFormat, "DraftFormat");
            options.threads = Threads;
            options.allow_inexact = AllowInexact ? 1 : 0;
            options.capacity = Capacity;
            return options;
        }
    }

    /// How a text is made; docs/reference/api.md says more about each option.
    public sealed class Options
    {
        /// 0: greedy.
        public double Temperature = 0;

        /// 0: off.
        public long TopK = 0;

        /// 1: off.
        public double TopP = 1;

        /// 0: off, and the next two.
        public double MinP = 0;
        public double TopNSigma = 0;
        public double XtcProbability = 0;
        public double XtcThreshold = 0.1;

        /// 1: off.
        public double RepetitionPenalty = 1;
        public double PresencePenalty = 0;
        public double FrequencyPenalty = 0;

        /// Added to logits, by token.
        public Dictionary<long, double> LogitBias = new Dictionary<long, double>();
        public long MinTokens = 0;

        /// -1: up to the end of the text or of the cache.
        public long MaxNewTokens = -1;

        /// They end the text, as the model's own do, and are part of it.
        public long[] StopTokens = new long[0];

        /// Go on after a token of the model that ends a text.
        public bool IgnoreEos = false;
        public Draft Draft = Draft.Both;

        /// Tokens drafted a round; -1: as many as pay.
        public long Gamma = -1;
        public Rule Rule = Rule.Default;

        /// Draws the same text again; null: a new one.
        public ulong? Seed = null;

        /// Report of each token the log of its probability by the target.
        public bool Logprobs = false;

        /// Strings that end the text and are no part of it.
        public List<string> Stop = new List<string>();

        /// Where the earlier answers of a conversation of token ids are: begin and end of each, as edgespec.h
        /// says. What the caches hold of it is then not computed again. null: it is.
        public long[] Answers = null;

        internal Native.Options Taken(Memory memory)
        {
            var options = new Native.Options();
            Native.edgespec_options_defaults(ref options);
            options.temperature = Temperature;
            options.top_k = TopK;
            options.top_p = TopP;
            options.min_p = MinP;
            options.top_n_sigma = TopNSigma;
            options.xtc_probability = XtcProbability;
            options.xtc_threshold = XtcThreshold;
            options.repetition_penalty = RepetitionPenalty;
            options.presence_penalty = PresencePenalty;
            options.frequency_penalty = FrequencyPenalty;
            options.logit_bias = memory.Biases(LogitBias);
            options.logit_bias_count = (UIntPtr)(uint)LogitBias.Count;
            options.min_tokens = MinTokens;
            options.max_new_tokens = MaxNewTokens;
            options.stop_tokens = memory.Longs(StopTokens);
            options.stop_tokens_count = Native.Count(StopTokens);
            options.ignore_eos = IgnoreEos ? 1 : 0;
            options.draft = (int)Draft;
            options.gamma = Gamma;
            options.rule = (int)Rule;
            options.has_seed = Seed.HasValue ? 1 : 0;
            options.seed = Seed.GetValueOrDefault();
            options.logprobs = Logprobs ? 1 : 0;
            options.stop = memory.Pointers(Stop.Select(one => memory.Text(one, "Stop")).ToArray());
            options.stop_count = (UIntPtr)(uint)Stop.Count;
            if (Answers?.Length % 2 == 1)
                throw new EdgespecException(
                    Status.Usage, $"Answers has {Answers.Length} numbers; give a begin and an end of each answer");
            options.answers = memory.Longs(Answers);
            options.answers_count = (UIntPtr)(uint)((Answers?.Length ?? 0) / 2);
            return options;
        }
    }
}
