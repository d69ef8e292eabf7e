"""Roaring bitmaps in their portable byte layout: 32-bit ones, 64-bit ones made of them, and containers."""
