using System;

namespace Edgespec
{
    /// What was wrong, as edgespec_status.
    public enum Status
    {
        Ok = 0,
        /// Something outside the program: a file, a model, a machine.
        Error = 1,
        /// The caller asked for something that cannot be.
        Usage = 2,
        /// Session.Cancel ended the text.
        Cancelled = 3,
    }

    /// A call that failed; the message says why in one line.
    public sealed class EdgespecException : Exception
    {
        internal EdgespecException(Status status, string message) : base(message)
        {
            Status = status;
        }

        public Status Status { get; }
    }
}
