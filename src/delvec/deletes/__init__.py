"""Deletes of any format as sets: of row positions, or of keys.

supported_kinds    refuses, by name, kinds and encodings of deletes that delvec cannot apply
deletes_of_files   which deletes apply to which data file
sets               the deletes by position of a plan's files, described and not loaded
equality           the deletes by value of a plan's files, described and not loaded
equality_file, equality_set, equality_bounds   their keys: read, looked up, and compared with files' bounds
loader, examine    loading these sets; examine returns an error for each bad one
position_file      Parquet files of positions
new_vectors        new vectors, united with the old deletes
"""
