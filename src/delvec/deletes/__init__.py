"""Deletes of any format as sets of row positions.

supported_kinds    refuses, by name, kinds and encodings of deletes that delvec cannot apply
deletes_of_files   which deletes apply to which data file
sets               the deletes of a plan's files, described and not loaded
loader, examine    loading these sets; examine returns an error for each bad one
position_file      Parquet files of positions
new_vectors        new vectors, united with the old deletes
"""
