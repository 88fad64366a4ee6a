using System;
using System.Runtime.InteropServices;
using System.Text;

namespace Edgespec
{
    /// What a pair takes, in bytes.
    public struct MemoryEstimate
    {
        internal MemoryEstimate(ulong weights, ulong caches)
        {
            Weights = weights;
            Caches = caches;
        }

        /// Graphs and weights, once for all sessions.
        public ulong Weights { get; }

        /// Of a session, or of each text of a batch, when they are full; they take memory as they are filled.
        public ulong Caches { get; }
    }

    /// A loaded pair. It never changes: threads may share it.
    public sealed class Model : IDisposable
    {
        private readonly Native.ModelHandle handle;

        /// Opens the folder that `edgespec export` wrote.
        public Model(string folder, LoadOptions options = null)
        {
            CheckAbi();
            using (var memory = new Memory())
            {
                Native.LoadOptions taken = (options ?? new LoadOptions()).Taken(memory);
                Native.Check(Native.edgespec_load(Memory.Bytes(folder, "the folder"), ref taken, out handle));
            }
        }

        /// The version of edgespec that the library is part of.
        public static string Version => Native.Text(Native.edgespec_version());

        /// What a pair will take, from its manifest alone.
        public static MemoryEstimate Estimate(string folder, LoadOptions options = null)
        {
            using (var memory = new Memory())
            {
                Native.LoadOptions taken = (options ?? new LoadOptions()).Taken(memory);
                var found = new Native.Memory { size = (UIntPtr)(uint)Marshal.SizeOf(typeof(Native.Memory)) };
                Native.Check(Native.edgespec_estimate(
                    Memory.Bytes(folder, "the folder"), ref taken, ref found));
                return new MemoryEstimate(found.weights, found.caches);
            }
        }

        /// A session, with the memory of its caches. It goes on when the model is disposed.
        public Session OpenSession()
        {
            Native.SessionHandle session;
            Native.Check(Native.edgespec_open_session(handle, out session));
            return new Session(session);
        }

        /// A batch of so many texts at once. It goes on when the model is disposed.
        public Batch OpenBatch(int texts)
        {
            Native.BatchHandle batch;
            Native.Check(Native.edgespec_open_batch(handle, (UIntPtr)unchecked((ulong)texts), out batch));
            return new Batch(batch);
        }

        /// A saved session, which goes on with its text as the saved one did: Session.Rest.
        public Session LoadSession(string file)
        {
            Native.SessionHandle session;
            Native.Check(Native.edgespec_load_session(handle, Memory.Bytes(file, "the file"), out session));
            return new Session(session);
        }

        /// Token ids of a text, which is not empty.
        public long[] Encode(string text)
        {
            byte[] bytes = Memory.Bytes(text, "the text");
            UIntPtr count;
            Native.Check(Native.edgespec_encode(handle, bytes, null, UIntPtr.Zero, out count));
            var tokens = new long[(int)count];
            Native.Check(Native.edgespec_encode(handle, bytes, tokens, count, out count));
            return tokens;
        }

        /// The text of token ids, without special tokens and ids that are no token's.
        public string Decode(params long[] tokens)
        {
            var given = Native.Count(tokens);
            UIntPtr bytes;
            Native.Check(Native.edgespec_decode(handle, tokens, given, null, UIntPtr.Zero, out bytes));
            var text = new byte[(int)bytes];
            Native.Check(Native.edgespec_decode(handle, tokens, given, text, bytes, out bytes));
            return Encoding.UTF8.GetString(text);
        }

        public void Dispose() => handle.Dispose();

        private static void CheckAbi()
        {
            uint abi = Native.edgespec_abi();
            if (abi == Native.Abi) return;
            throw new EdgespecException(
                Status.Usage,
                $"libedgespec has the ABI {abi} and this binding was compiled for {Native.Abi}; " +
                "ship both of one version");
        }
    }
}
