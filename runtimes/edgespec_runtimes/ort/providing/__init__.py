"""Providers other than the processor: plug-ins, what they run, memory of their devices."""
