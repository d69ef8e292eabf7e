"""The command line, without Spark."""
