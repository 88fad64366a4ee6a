"""Training a draft on its target's own outputs: `edgespec distill`. Needs torch and transformers.

The steps: `distill_draft` checks the request, before torch is loaded; `data` generates and stores
the target's texts and distributions; `models` builds the draft; `training` trains it;
`distillation` connects them; `card` writes the result.
"""
