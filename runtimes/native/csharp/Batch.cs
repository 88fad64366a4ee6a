using System;
using System.Collections.Generic;

namespace Edgespec
{
    /// A text of a batch: its number, counted from 0, and what draws the same text again.
    public struct AddedText
    {
        internal AddedText(long text, ulong seed)
        {
            Text = text;
            Seed = seed;
        }

        public long Text { get; }
        public ulong Seed { get; }
    }

    /// What came next of the texts of a batch.
    public sealed class TextPiece
    {
        internal TextPiece(long text, Piece piece, EdgespecException failure)
        {
            Text = text;
            Piece = piece;
            Failure = failure;
        }

        /// The number of the text.
        public long Text { get; }

        /// Null where the text failed.
        public Piece Piece { get; }

        /// Why it failed: it has ended, and the others go on. Null where it did not.
        public EdgespecException Failure { get; }
    }

    /// Several texts at once, in calls that they share: each is as it is alone. One thread at a time may use it;
    /// Progress, Cancel and Dispose may be called by any.
    public sealed class Batch : IDisposable
    {
        private delegate int Adds(ref Native.Options options, out long text, out ulong seed);

        private readonly Native.BatchHandle handle;

        internal Batch(Native.BatchHandle opened)
        {
            handle = opened;
        }

        /// Adds a text that goes on from token ids, beside those that are being made.
        public AddedText Add(long[] prompt, Options options = null) => Add(
            (ref Native.Options taken, out long text, out ulong seed) => Native.edgespec_batch_add(
                handle, prompt, Native.Count(prompt), ref taken, out text, out seed), options);

        /// Adds a text that goes on from this one. Special tokens that it spells out are tokens.
        public AddedText Add(string prompt, Options options = null) => Add(
            (ref Native.Options taken, out long text, out ulong seed) => Native.edgespec_batch_add_text(
                handle, Memory.Bytes(prompt, "the prompt"), ref taken, out text, out seed), options);

        /// Adds the answer to a conversation, whose last message is a user's.
        public AddedText Add(IEnumerable<Message> messages, Options options = null)
        {
            using (var memory = new Memory())
            {
                Native.Turn[] turns = memory.Turns(messages);
                return Add(
                    (ref Native.Options taken, out long text, out ulong seed) => Native.edgespec_batch_add_chat(
                        handle, turns, Native.Count(turns), ref taken, out text, out seed), options);
            }
        }

        /// The next piece of any text, as they are made; it ends when none is being made.
        public IEnumerable<TextPiece> Pieces()
        {
            for (TextPiece one = Next(); one != null; one = Next()) yield return one;
        }

        /// The next piece of any text; null if none is being made.
        public TextPiece Next()
        {
            Native.Piece piece = Native.Piece.Empty;
            using (new Native.Held(handle))
            {
                long text;
                int status = Native.edgespec_batch_next(handle, out text, ref piece);
                if (text < 0)
                {
                    Native.Check(status);
                    return null;
                }
                try
                {
                    Native.Check(status);
                    return new TextPiece(text, new Piece(piece), null);
                }
                catch (EdgespecException failure)
                {
                    return new TextPiece(text, null, failure);
                }
            }
        }

        /// Positions of a text's prompt that were read, and had to be; any thread may ask.
        public void Progress(long text, out long read, out long toRead) =>
            Native.Check(Native.edgespec_batch_progress(handle, text, out read, out toRead));

        /// Takes a text out, from any thread: what comes next of it is a failure.
        public void Cancel(long text) => Native.edgespec_batch_cancel(handle, text);

        /// Frees its caches; a call that another thread has begun ends first.
        public void Dispose() => handle.Dispose();

        private AddedText Add(Adds adds, Options options)
        {
            using (var memory = new Memory())
            {
                Native.Options taken = (options ?? new Options()).Taken(memory);
                long text;
                ulong seed;
                Native.Check(adds(ref taken, out text, out seed));
                return new AddedText(text, seed);
            }
        }
    }
}
