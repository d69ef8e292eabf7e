"""Statistics of data files in Delta's log: the field ``stats`` of ``add`` actions.

Writing:
    columns   which columns have statistics
    writer    the texts of new files, from statistics that were measured by `delvec.footers`
    bounds    one bound as a JSON value
    texts     the texts of files that are in the log already, when their action is written again
Reading:
    parser    the texts, parsed into Arrow columns
    facts     statistics and partition values of a snapshot's files, for conditions
"""
