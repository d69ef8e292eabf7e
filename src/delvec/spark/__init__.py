"""The engine: plans of any table format, as Spark plans. Nothing here knows a format."""
