using System;
using System.Collections;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Edgespec
{
    /// Why a text ended.
    public enum Ending
    {
        GoesOn = 0,
        /// A token of the model ended it.
        EndOfText = 1,
        /// One of StopTokens or a string of Stop did.
        Stopped = 2,
        MaxTokens = 3,
        /// The cache is full.
        Full = 4,
    }

    /// What one call of the target brought, or the text's end, which has no tokens.
    public sealed class Piece
    {
        internal Piece(Native.Piece made)
        {
            Tokens = new long[(int)made.count];
            if (Tokens.Length > 0) Marshal.Copy(made.tokens, Tokens, 0, Tokens.Length);
            Logprobs = new double[made.logprobs == IntPtr.Zero ? 0 : Tokens.Length];
            if (Logprobs.Length > 0) Marshal.Copy(made.logprobs, Logprobs, 0, Logprobs.Length);
            Text = Native.Text(made.text, (int)made.text_bytes);
            Drafted = made.drafted;
            Evaluated = made.evaluated;
            Accepted = made.accepted;
            Ending = (Ending)made.ending;
        }

        public long[] Tokens { get; }

        /// What became final with the tokens, or with the end.
        public string Text { get; }

        /// Of the tokens; empty unless asked for.
        public double[] Logprobs { get; }

        /// Tokens that were proposed; those that the rule looked at; those of them that stayed.
        public long Drafted { get; }
        public long Evaluated { get; }
        public long Accepted { get; }

        /// GoesOn but for the last piece.
        public Ending Ending { get; }
    }

    /// The pieces of a text, made as they are asked for, once: with foreach, or with await foreach, where each is
    /// made on another thread and a cancelled token ends the text.
    public sealed class Text : IEnumerable<Piece>, IAsyncEnumerable<Piece>
    {
        private readonly Session session;

        internal Text(Session session, ulong seed)
        {
            this.session = session;
            Seed = seed;
        }

        /// Draws the same text again.
        public ulong Seed { get; }

        /// Why it ended; GoesOn until then.
        public Ending Ending { get; private set; }

        /// The whole text that is still to come.
        public string Rest()
        {
            var rest = new StringBuilder();
            foreach (Piece piece in this) rest.Append(piece.Text);
            return rest.ToString();
        }

        public IEnumerator<Piece> GetEnumerator()
        {
            while (Ending == Ending.GoesOn) yield return Next();
        }

        IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

        public IAsyncEnumerator<Piece> GetAsyncEnumerator(CancellationToken cancellation = default(CancellationToken))
            => new Pieces(this, cancellation);

        private Piece Next()
        {
            Piece piece = session.Next(this);
            Ending = piece.Ending;
            return piece;
        }

        private sealed class Pieces : IAsyncEnumerator<Piece>
        {
            private readonly Text text;
            private readonly CancellationToken cancellation;

            internal Pieces(Text text, CancellationToken cancellation)
            {
                this.text = text;
                this.cancellation = cancellation;
            }

            public Piece Current { get; private set; }

            public async ValueTask<bool> MoveNextAsync()
            {
                if (text.Ending != Ending.GoesOn) return false;
                cancellation.ThrowIfCancellationRequested();
                using (cancellation.Register(text.session.Cancel))
                {
                    try
                    {
                        Current = await Task.Run(() => text.Next()).ConfigureAwait(false);
                    }
                    catch (EdgespecException failure) when (failure.Status == Status.Cancelled)
                    {
                        cancellation.ThrowIfCancellationRequested();
                        throw;
                    }
                }
                return true;
            }

            public ValueTask DisposeAsync() => default(ValueTask);
        }
    }
}
