"""Parquet footers: what a data file states about its own rows and columns.

reader       opens a footer: number of rows, columns by path, statistics of each row group
bounds       the least and greatest value of a column, from Parquet's types to the type of the table's column
statistics   statistics of new data files as Arrow columns, one row per file
"""
