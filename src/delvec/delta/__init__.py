"""Delta Lake.

Modules that every format has:
table, snapshot, planning   versions of the table, and their plans
rules, commit, winners      how rows are written; commits; commits of other writers
history, schema, creation   the history, the columns, new tables

Delta's own:
log_files, log_reader, replay, recovery   the log, from its files to the state of a version
actions, action_reader, action_writer     actions of the log
checkpoint_*                              checkpoints
descriptor, vector_file, vector_writer    deletion vectors
features, writer_features, protocol_upgrade, properties   the protocol
file_actions, commit_info, metrics        what a commit records
stats/                                    statistics of files
"""
