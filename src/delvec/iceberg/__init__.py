"""Apache Iceberg, format versions 1 to 3: metadata files, snapshots, plans. Knows no Spark.

table, snapshot          the interface of `delvec.formats`
metadata_files           which metadata file is the newest one of a table at a path
catalogs                 tables of catalogs, through pyiceberg; the only module that imports its catalogs
metadata                 a metadata file as values: schemas, partition specs, snapshots, refs
schema, partitions       columns and partition specs in the terms that all formats share
name_mapping             field ids of columns in data files that record none
refs, history            branches and tags, time travel, the list of snapshots
json_object              members of JSON documents, each checked when it is read
"""
