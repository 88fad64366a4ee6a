"""Training a draft on its target's own outputs: `edgespec distill`. Needs torch and transformers.

The steps: `api` checks the request, before torch is loaded; `data` generates and stores the
target's texts and distributions; `models` builds the draft; `training` trains it; `run` connects
them; `card` writes the result.
"""
