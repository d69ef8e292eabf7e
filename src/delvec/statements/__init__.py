"""SQL: statements in Spark's syntax on delvec's tables. ``delvec.sql`` runs one.

lexer, cursor        tokens with their positions, and reading them in order
parser               finds out which statement it is. parse_dml, parse_query_insert, parse_ddl, parse_show and
                     views read it into a value (`statement`); unsupported refuses what delvec lacks
opened_tables        the tables of a statement, opened once
table_references     the tables that a query reads
scopes               which SELECT reads a table, and what its names mean
qualifiers           names with a table before the column
where_conjuncts      the part of WHERE that selects files
parameters           values for markers
run                  runs statements, with run_query, run_dml, run_insert, run_ddl and run_show
count_query          SELECT count(*) FROM t, from the table's metadata
dry_run              what a statement would do
"""
