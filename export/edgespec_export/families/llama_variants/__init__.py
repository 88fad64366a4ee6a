"""Relatives of Llama that need more than a config to be one."""
