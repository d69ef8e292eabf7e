"""Writers as processes of their own: what they are told to do, how they may die, and what must come of it."""
