"""Measurements of delvec beside the best other way to do the same; ``python -m bench`` runs them."""
