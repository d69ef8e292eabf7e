"""The engine: plans of any table format as Spark plans. Nothing here knows a format.

scan       scan, scan_part, file_groups, file_paths, partition_folders: a plan as a DataFrame;
           vector_words, vector_chunks, load_on_executors: three ways to leave deleted rows out
verbs      count, append, delete, update, merge*, add_columns; target: the
           table that a verb changes; dry_run; convert, parquet_columns, hive_partitions: files as a table
rows       find_rows, row_bitmaps: the rows that a verb removes; remove_rows, store_on_executors: new vectors;
           write_rows, new_rows, change_files, row_lineage: new files; row_checks, store_assignment,
           set_clause, computed_columns, text_lengths: the values of new rows
compaction optimize, compaction, write_groups, zorder, copied_rows, partition_condition: files are rewritten
commits    commit_and_rerun: commits a delta, or runs the statement again
session    session, conditions, types, version_times, progress, notebook, error_translation
"""
