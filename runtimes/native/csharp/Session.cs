using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;

namespace Edgespec
{
    /// A message of a conversation; the role is "system", "user" or "assistant".
    public struct Message
    {
        public Message(string role, string content)
        {
            Role = role;
            Content = content;
        }

        public string Role { get; }
        public string Content { get; }
    }

    /// One text after the other, with caches of its own. One thread at a time may use it; Cancel and Dispose
    /// may be called by any.
    public sealed class Session : IDisposable
    {
        private delegate int Begins(ref Native.Options options, out ulong seed);

        private readonly Native.SessionHandle handle;
        private volatile object latest; // a Text or a Transcript

        internal Session(Native.SessionHandle opened)
        {
            handle = opened;
        }

        /// Another session with the same caches and text: Rest goes on from here as this one does.
        public Session Fork()
        {
            Native.SessionHandle fork;
            Native.Check(Native.edgespec_fork(handle, out fork));
            return new Session(fork);
        }

        /// Writes caches and text to a file, whole or not at all; Model.LoadSession opens it.
        public void Save(string file) =>
            Native.Check(Native.edgespec_save(handle, Memory.Bytes(file, "the file")));

        /// What is still to come of the text that a fork or a loaded session goes on with.
        public Text Rest()
        {
            var text = new Text(this, 0);
            latest = text;
            return text;
        }

        /// Positions of the latest prompt that were read, and had to be; any thread may ask.
        public void PromptProgress(out long read, out long toRead) =>
            Native.Check(Native.edgespec_prompt_progress(handle, out read, out toRead));

        /// Begins a text that goes on from token ids; one that has not ended is dropped.
        public Text Begin(long[] prompt, Options options = null) => Begin(
            (ref Native.Options taken, out ulong seed) => Native.edgespec_begin(
                handle, prompt, Native.Count(prompt), ref taken, out seed), options);

        /// Begins a text that goes on from this one. Special tokens that it spells out are tokens.
        public Text Begin(string prompt, Options options = null) => Begin(
            (ref Native.Options taken, out ulong seed) => Native.edgespec_begin_text(
                handle, Memory.Bytes(prompt, "the prompt"), ref taken, out seed), options);

        /// Begins the answer to a conversation, whose last message is a user's.
        public Text Begin(IEnumerable<Message> messages, Options options = null)
        {
            using (var memory = new Memory())
            {
                Native.Turn[] turns = memory.Turns(messages);
                return Begin(
                    (ref Native.Options taken, out ulong seed) => Native.edgespec_begin_chat(
                        handle, turns, Native.Count(turns), ref taken, out seed), options);
            }
        }

        /// Begins the transcript of a sound: mono, 16,000 samples a second, about -1 to 1.
        public Transcript BeginTranscript(float[] samples, TranscriptOptions options = null)
        {
            using (var memory = new Memory())
            {
                Native.TranscriptOptions taken = (options ?? new TranscriptOptions()).Taken(memory);
                Native.Check(Native.edgespec_begin_transcript(
                    handle, samples, Native.Count(samples), ref taken));
                var transcript = new Transcript(this);
                latest = transcript;
                return transcript;
            }
        }

        /// Ends the text that is being made, from any thread; another one may begin then.
        public void Cancel() => Native.edgespec_cancel(handle);

        /// Frees its caches; a call that another thread has begun ends first.
        public void Dispose() => handle.Dispose();

        internal Piece Next(Text text)
        {
            if (text != latest) throw new InvalidOperationException("another text has begun in this session");
            Native.Piece piece = Native.Piece.Empty;
            using (new Native.Held(handle))
            {
                Native.Check(Native.edgespec_next(handle, ref piece));
                return new Piece(piece);
            }
        }

        internal Segment NextSegment(Transcript transcript)
        {
            if (transcript != latest)
                throw new InvalidOperationException("another transcript has begun in this session");
            var segment = new Native.Segment { size = (UIntPtr)(uint)Marshal.SizeOf(typeof(Native.Segment)) };
            using (new Native.Held(handle))
            {
                Native.Check(Native.edgespec_next_segment(handle, ref segment));
                return new Segment(segment);
            }
        }

        private Text Begin(Begins begins, Options options)
        {
            using (var memory = new Memory())
            {
                Native.Options taken = (options ?? new Options()).Taken(memory);
                ulong seed;
                Native.Check(begins(ref taken, out seed));
                var text = new Text(this, seed);
                latest = text;
                return text;
            }
        }
    }
}
