"""Commands on the models that are at hand: what is kept, what there is, and what can go."""
