using System;
using System.Runtime.InteropServices;
using System.Text;
using Microsoft.Win32.SafeHandles;

namespace Edgespec
{
    /// The structures and functions of edgespec.h. Handles are counted: one that is disposed while a call
    /// uses it is freed after the call.
    internal static class Native
    {
        private const string Library = "edgespec";
        internal const uint Abi = 1;

        [StructLayout(LayoutKind.Sequential)]
        internal struct LoadOptions
        {
            public UIntPtr size;
            public IntPtr onnxruntime;
            public IntPtr target_format;
            public IntPtr draft_format;
            public int threads;
            public int allow_inexact;
            public long capacity;
        }

        [StructLayout(LayoutKind.Sequential)]
        internal struct Memory
        {
            public UIntPtr size;
            public ulong weights;
            public ulong caches;
        }

        [StructLayout(LayoutKind.Sequential)]
        internal struct Range
        {
            public long begin;
            public long end;
        }

        [StructLayout(LayoutKind.Sequential)]
        internal struct Bias
        {
            public long token;
            public double bias;
        }

        [StructLayout(LayoutKind.Sequential)]
        internal struct Options
        {
            public UIntPtr size;
            public double temperature;
            public long top_k;
            public double top_p;
            public double min_p;
            public double top_n_sigma;
            public double xtc_probability;
            public double xtc_threshold;
            public double repetition_penalty;
            public double presence_penalty;
            public double frequency_penalty;
            public IntPtr logit_bias;
            public UIntPtr logit_bias_count;
            public long min_tokens;
            public long max_new_tokens;
            public IntPtr stop_tokens;
            public UIntPtr stop_tokens_count;
            public int ignore_eos;
            public int draft;
            public long gamma;
            public int rule;
            public int has_seed;
            public ulong seed;
            public int logprobs;
            public IntPtr stop;
            public UIntPtr stop_count;
            public IntPtr answers;
            public UIntPtr answers_count;
        }

        [StructLayout(LayoutKind.Sequential)]
        internal struct Turn
        {
            public IntPtr role;
            public IntPtr content;
        }

        [StructLayout(LayoutKind.Sequential)]
        internal struct Piece
        {
            public UIntPtr size;
            public IntPtr tokens;
            public UIntPtr count;
            public long drafted;
            public long evaluated;
            public long accepted;
            public int ending;
            public IntPtr logprobs;
            public IntPtr text;
            public UIntPtr text_bytes;

            /// One that the library fills in.
            internal static Piece Empty => new Piece { size = (UIntPtr)(uint)Marshal.SizeOf(typeof(Piece)) };
        }

        [StructLayout(LayoutKind.Sequential)]
        internal struct TranscriptOptions
        {
            public UIntPtr size;
            public IntPtr language;
            public int translate;
            public int timestamps;
            public int use_previous;
            public IntPtr prompt;
            public IntPtr temperatures;
            public UIntPtr temperatures_count;
            public double no_speech;
            public double min_logprob;
            public double max_compression;
            public int draft;
            public long gamma;
            public ulong seed;
        }

        [StructLayout(LayoutKind.Sequential)]
        internal struct Segment
        {
            public UIntPtr size;
            public double start;
            public double end;
            public IntPtr text;
            public UIntPtr text_bytes;
            public IntPtr tokens;
            public UIntPtr count;
            public double temperature;
            public double logprob;
            public double compression;
            public double no_speech;
            public IntPtr language;
            public double language_probability;
            public double seconds;
            public long calls;
            public long drafted;
            public long accepted;
            public int ended;
        }

        internal sealed class ModelHandle : SafeHandleZeroOrMinusOneIsInvalid
        {
            public ModelHandle() : base(true) { }

            protected override bool ReleaseHandle()
            {
                edgespec_close(handle);
                return true;
            }
        }

        /// Keeps an object while what a call left in its memory is copied: another thread may dispose it.
        internal struct Held : IDisposable
        {
            private readonly SafeHandle handle;

            internal Held(SafeHandle handle)
            {
                bool held = false;
                this.handle = handle;
                handle.DangerousAddRef(ref held);
            }

            public void Dispose() => handle.DangerousRelease();
        }

        internal sealed class SessionHandle : SafeHandleZeroOrMinusOneIsInvalid
        {
            public SessionHandle() : base(true) { }

            protected override bool ReleaseHandle()
            {
                edgespec_close_session(handle);
                return true;
            }
        }

        internal sealed class BatchHandle : SafeHandleZeroOrMinusOneIsInvalid
        {
            public BatchHandle() : base(true) { }

            protected override bool ReleaseHandle()
            {
                edgespec_close_batch(handle);
                return true;
            }
        }

        [DllImport(Library)]
        internal static extern uint edgespec_abi();

        [DllImport(Library)]
        internal static extern IntPtr edgespec_version();

        [DllImport(Library)]
        internal static extern IntPtr edgespec_message();

        [DllImport(Library)]
        internal static extern void edgespec_load_options_defaults(ref LoadOptions options);

        [DllImport(Library)]
        internal static extern void edgespec_options_defaults(ref Options options);

        [DllImport(Library)]
        internal static extern void edgespec_transcript_options_defaults(ref TranscriptOptions options);

        [DllImport(Library)]
        internal static extern int edgespec_estimate(byte[] folder, ref LoadOptions options, ref Memory memory);

        [DllImport(Library)]
        internal static extern int edgespec_load(byte[] folder, ref LoadOptions options, out ModelHandle model);

        [DllImport(Library)]
        private static extern void edgespec_close(IntPtr model);

        [DllImport(Library)]
        internal static extern int edgespec_open_session(ModelHandle model, out SessionHandle session);

        [DllImport(Library)]
        internal static extern int edgespec_fork(SessionHandle session, out SessionHandle fork);

        [DllImport(Library)]
        internal static extern int edgespec_save(SessionHandle session, byte[] file);

        [DllImport(Library)]
        internal static extern int edgespec_load_session(
            ModelHandle model, byte[] file, out SessionHandle session);

        [DllImport(Library)]
        private static extern void edgespec_close_session(IntPtr session);

        [DllImport(Library)]
        internal static extern int edgespec_begin(
            SessionHandle session, long[] prompt, UIntPtr count, ref Options options, out ulong seed);

        [DllImport(Library)]
        internal static extern int edgespec_begin_text(
            SessionHandle session, byte[] prompt, ref Options options, out ulong seed);

        [DllImport(Library)]
        internal static extern int edgespec_begin_chat(
            SessionHandle session, Turn[] turns, UIntPtr count, ref Options options, out ulong seed);

        [DllImport(Library)]
        internal static extern int edgespec_next(SessionHandle session, ref Piece piece);

        [DllImport(Library)]
        internal static extern int edgespec_begin_transcript(
            SessionHandle session, float[] samples, UIntPtr count, ref TranscriptOptions options);

        [DllImport(Library)]
        internal static extern int edgespec_next_segment(SessionHandle session, ref Segment segment);

        [DllImport(Library)]
        internal static extern int edgespec_prompt_progress(
            SessionHandle session, out long read, out long toRead);

        [DllImport(Library)]
        internal static extern void edgespec_cancel(SessionHandle session);

        [DllImport(Library)]
        internal static extern int edgespec_open_batch(
            ModelHandle model, UIntPtr texts, out BatchHandle batch);

        [DllImport(Library)]
        private static extern void edgespec_close_batch(IntPtr batch);

        [DllImport(Library)]
        internal static extern int edgespec_batch_add(
            BatchHandle batch, long[] prompt, UIntPtr count, ref Options options, out long text, out ulong seed);

        [DllImport(Library)]
        internal static extern int edgespec_batch_add_text(
            BatchHandle batch, byte[] prompt, ref Options options, out long text, out ulong seed);

        [DllImport(Library)]
        internal static extern int edgespec_batch_add_chat(
            BatchHandle batch, Turn[] turns, UIntPtr count, ref Options options, out long text, out ulong seed);

        [DllImport(Library)]
        internal static extern int edgespec_batch_next(BatchHandle batch, out long text, ref Piece piece);

        [DllImport(Library)]
        internal static extern int edgespec_batch_progress(
            BatchHandle batch, long text, out long read, out long toRead);

        [DllImport(Library)]
        internal static extern void edgespec_batch_cancel(BatchHandle batch, long text);

        [DllImport(Library)]
        internal static extern int edgespec_encode(
            ModelHandle model, byte[] text, [Out] long[] tokens, UIntPtr room, out UIntPtr count);

        [DllImport(Library)]
        internal static extern int edgespec_decode(
            ModelHandle model, long[] tokens, UIntPtr count, [Out] byte[] text, UIntPtr room, out UIntPtr bytes);

        /// How many an array has; null is one with nothing in it.
        internal static UIntPtr Count(Array array) => (UIntPtr)(uint)(array?.Length ?? 0);

        /// Throws EdgespecException: the call failed.
        internal static void Check(int status)
        {
            if (status != 0) throw new EdgespecException((Status)status, Text(edgespec_message()));
        }

        /// The text of UTF-8 that ends with a zero.
        internal static string Text(IntPtr bytes)
        {
            int count = 0;
            while (Marshal.ReadByte(bytes, count) != 0) count++;
            return Text(bytes, count);
        }

        internal static string Text(IntPtr bytes, int count)
        {
            var copy = new byte[count];
            if (count > 0) Marshal.Copy(bytes, copy, 0, count);
            return Encoding.UTF8.GetString(copy);
        }
    }
}
