"""Sound: files and arrays, resampling, log-mel spectrograms. numpy only."""
