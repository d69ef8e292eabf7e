"""SQL: statements in Spark's words on tables of delvec. ``delvec.sql`` runs one.

lexer, cursor    tokens with their places, and reading them in order
parser           which statement it is: ``changes``, ``definitions``, ``inspection`` and ``views`` read
                 the frames into ``tree``; ``missing`` refuses what delvec does not have
relations        the tables that a query reads; ``pruning``: what its WHERE says of each
parameters       values for markers
frames           queries as DataFrames
execution        statements run, by ``changing``, ``inserting``, ``defining`` and ``describing``
dry_run          what a statement would do
"""
