"""The portable byte layout of Roaring bitmaps: 32-bit bitmaps, 64-bit sets of them, and containers."""
