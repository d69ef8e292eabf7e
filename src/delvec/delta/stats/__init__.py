"""Statistics of data files as Delta's log holds them.

columns   which columns a writer keeps statistics of
bounds    bounds of columns, from Parquet footers to the values of the log's JSON
writer    statistics of new data files, from their footers
texts     statistics texts of files that are in the log already, adapted
parser    statistics texts, parsed into Arrow columns
facts     what the log knows of a snapshot's files, by column, parsed on demand
"""
