"""The metadata tree of format version 4: one root manifest per snapshot, leaf manifests, manifest vectors.

entries          content entries as Arrow columns, in the root and in leaves
content_stats    the type of their statistics, and how statistics of different types become one
profile_seed     the layout on disk: ids and names of fields
manifest_file    manifests as Parquet files of this layout
parquet_columns  columns of a Parquet file by field id
validation       the rules of manifests: entry_rules, root_rules, leaf_rules
root, live       the leaves of a snapshot and their masked positions; live entries with what they inherit
commit, new_root, manifest_vectors    the root of the next snapshot
flush, flush_deletes, new_leaves, limits   entries that leave the root for leaves
manifest_files   the files of a tree, as commits and plans use them
expressions      transforms of columns with ids of their own, in the metadata of the table
measured_columns   what entries of a table have statistics of
new_stats, aggregated_stats   statistics of new files, and of leaves
tree_facts, partition_tuples  what statistics say: for pruning, and as partition values
mark             the properties that say that a table has trees

With the files of a table:

stored_tree      reads and stores roots, leaves and Puffin files of manifest vectors
live_tree        the live files of a snapshot, as plans and commits read them
partition_overlap, equality_entries   which delete manifests a plan needs; keys of equality deletes
snapshot_root, new_tree_entries    from the entries that a commit adds and removes to the next root
changed_entries  what a snapshot changed, by its own root
avro_leaves      manifests from before the table had trees
needed_leaves    the files that roots name, for vacuum
tree_rules       rules across leaves, for verify
"""
