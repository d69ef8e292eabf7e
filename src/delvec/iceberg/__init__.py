"""Apache Iceberg, format versions 1 to 4: metadata files, snapshots, plans. Knows no Spark.

table, snapshot          the interface of `delvec.formats`
metadata_files           which metadata file is the newest one of a table at a path
catalogs                 tables of catalogs, through pyiceberg; the only module that imports its catalogs
metadata                 a metadata file as values: schemas, partition specs, snapshots, refs
schema, partitions       columns and partition specs in the terms that all formats share
name_mapping             field ids of columns in data files that record none
refs, history            branches and tags, time travel, the list of snapshots
planning, plan_tables    from a snapshot and a condition to a plan
file_index, live_entries the live files of a snapshot, read from manifests when a plan needs them
live_files               of a snapshot with a manifest list
tree                     of a snapshot with a root manifest (version 4), and the roots that commits store
manifest_list, manifest, manifest_cache   manifests as Arrow columns
manifest_writer, manifest_list_writer, entry_maps   the same, written
avro_*                   Avro files as Arrow columns, read and written
stats_writer, metrics_modes, bound_truncation   statistics of new files
vector_file, position_delete_file   new deletes
stats, manifest_facts, partition_ranges, single_values, bucket_hash   facts that conditions are judged by
delete_scopes            which deletes belong to which data files
json_object              members of JSON documents, each checked when it is read
"""
