"""The package's version, in a module that every other module may import."""

__version__ = "0.1.0.dev0"
