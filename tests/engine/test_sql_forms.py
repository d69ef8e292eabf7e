"""Query forms by ``delvec.sql`` on delvec tables, and by Spark on views of the same rows: the same answers.

The tables are laid out so that wrong pruning loses rows: partitions, files of distinct ranges, deletion
vectors, and columns whose names a query may take for a table, an alias or a format.
"""

from __future__ import annotations

import datetime as dt

import pytest

from verbs import frame_of

pytestmark = pytest.mark.spark

ORDERS = (
    "id INT, region STRING, customer STRING, amount DOUBLE, placed DATE, "
    "s STRUCT<a: INT, c: INT, name: STRING>, arr ARRAY<INT>, m MAP<STRING, INT>, `a name` INT, Mixed INT, "
    "delta STRUCT<x: STRUCT<y: INT>, a: INT>, x STRUCT<y: INT>"
)
PEOPLE = "id INT, name STRING, boss INT, region STRING"
TAGS = "id INT, tag STRING"


def order(number):
    return (
        number,
        ("as", "eu", "us", None)[number % 4],
        None if number % 7 == 6 else f"c{number % 5}",
        None if number % 6 == 5 else number * 1.5,
        dt.date(2024, 1, 1) + dt.timedelta(days=number * 20),
        None if number % 9 == 8 else (number, number % 4, f"n{number % 3}"),
        [number, number + 1] if number % 5 else [],
        {"k": number, "l": 1} if number % 3 else None,
        number % 6,
        number % 3,
        ((number % 4,), number),
        (100 + number % 4,),
    )


FIRST, SECOND = [order(n) for n in range(12)], [order(n) for n in range(12, 24)]
DELETED = (2, 3, 13, 22)
PEOPLE_ROWS = [(n, f"c{n}", n // 2 if n else None, ("as", "eu", "us")[n % 3]) for n in range(8)]
TAG_ROWS = [(1, "new"), (1, "big"), (4, "new"), (15, None), (None, "lost"), (99, "none")]


@pytest.fixture(scope="module")
def sides(spark, tmp_path_factory):
    """Two ways to run a form: by delvec on its tables, by Spark in a session of its own on views."""
    from delvec import Table, sql
    from delvec.name_resolver import unregister

    folder = tmp_path_factory.mktemp("forms")
    orders = Table.create(spark, str(folder / "orders"), ORDERS, partition_by=["region"],
                          properties={"delta.columnMapping.mode": "name"})  # fmt: skip
    orders.append(frame_of(spark, ORDERS, FIRST))
    orders.append(frame_of(spark, ORDERS, SECOND))
    orders.delete(f"id IN {DELETED}")
    people = Table.create(spark, str(folder / "people"), PEOPLE)
    people.append(frame_of(spark, PEOPLE, PEOPLE_ROWS[:4]))
    people.append(frame_of(spark, PEOPLE, [*PEOPLE_ROWS[4:], (50, "gone", 1, "eu")]))
    people.delete("id = 50")
    tags = Table.create(spark, str(folder / "tags"), TAGS)
    tags.append(frame_of(spark, TAGS, TAG_ROWS))
    tables = {"orders": orders, "people": people, "tags": tags}
    live = [row for row in (*FIRST, *SECOND) if row[0] not in DELETED]
    session, other = spark.newSession(), spark.newSession()
    for each in (session, other):  # as little work as so few rows need
        each.conf.set("spark.sql.shuffle.partitions", "1")
    other.conf.set("spark.sql.codegen.wholeStage", "false")
    views = {"orders": (ORDERS, live), "people": (PEOPLE, PEOPLE_ROWS), "tags": (TAGS, TAG_ROWS),
             "orders_1": (ORDERS, FIRST)}  # fmt: skip
    for name, (ddl, rows) in views.items():
        other.createDataFrame(rows, ddl).coalesce(1).createOrReplaceTempView(name)
    for name, table in tables.items():
        table.register(name)
    places = {name: f"delvec.`{table.location}`" for name, table in tables.items()}

    def mine(text, args):
        return sql(session, filled(text, places | {"orders_1": "orders VERSION AS OF 1"}), args)

    def theirs(text, args):
        return other.sql(filled(text, {name: name for name in views}), args=args)

    yield mine, theirs
    for name in tables:
        unregister(name)


def filled(text, names):
    for name, shown in names.items():
        text = text.replace("{" + name + "}", shown)
    return text


def answer(frame):
    return frame.columns, sorted(map(repr, map(tuple, frame.collect())))


FORMS = """
SELECT * FROM orders
SELECT * FROM {orders} WHERE id > 20
SELECT * FROM orders WHERE region = 'eu'
SELECT * FROM orders WHERE region IS NULL AND id < 20
SELECT id FROM orders WHERE region <=> NULL
SELECT id FROM orders WHERE NOT (region = 'eu')
SELECT id FROM orders WHERE region <> 'eu' OR id = 5
SELECT id FROM orders WHERE id IN (1, 14, NULL)
SELECT id FROM orders WHERE id NOT IN (1, 14)
SELECT id FROM orders WHERE id NOT IN (1, NULL)
SELECT id FROM orders WHERE id BETWEEN 10 AND 13
SELECT id FROM orders WHERE customer LIKE 'c_' AND customer NOT LIKE '%3'
SELECT id FROM orders WHERE customer RLIKE '^c[12]$'
SELECT id FROM orders WHERE amount IS NULL
SELECT id FROM orders WHERE amount > 10 IS NOT TRUE
SELECT id FROM orders WHERE placed >= DATE'2024-09-01'
SELECT id FROM orders WHERE placed > '2024-09-01' AND id % 2 = 0
SELECT id FROM orders WHERE extract(YEAR FROM placed) = 2025
SELECT id, extract(month FROM placed) AS mon FROM orders WHERE id >= 20
SELECT id FROM orders WHERE s.a = 5
SELECT id FROM orders WHERE orders.s.a = 5 AND s.c = 1
SELECT s.* FROM orders WHERE s.c = 3
SELECT orders.* FROM orders WHERE orders.id = 17
SELECT id FROM orders WHERE get(arr, 0) = 7
SELECT id FROM orders WHERE array_contains(arr, 8)
SELECT id FROM orders WHERE m['k'] = 10
SELECT id, m.k FROM orders WHERE m.k > 18
SELECT id FROM orders WHERE `a name` = 3
SELECT `a name` AS `b name` FROM orders WHERE ORDERS.`A NAME` = 3 AND ID > 10
SELECT MIXED, Mixed AS mixed_too FROM orders WHERE mixed = 2
SELECT delta.x.y FROM orders WHERE delta.x.y = 3
SELECT id, delta.`x`.y FROM orders WHERE delta.`x`.y = 3
SELECT id, delta.`a` FROM orders WHERE delta.`a` >= 15
SELECT x.y FROM orders WHERE x.y = 103
SELECT id FROM {orders} delvec WHERE delvec.`id` = 12
SELECT delta.id FROM orders AS delta WHERE delta.id = 12
SELECT s.id FROM orders s WHERE s.id = 3 OR s.c = 2
SELECT s.a FROM orders AS t WHERE t.s.a < 3
SELECT o.id FROM orders AS o WHERE o.region = 'us' AND o.id < 12
SELECT n FROM people AS o (n, id, region, r) WHERE r = 'us' AND region > 0
SELECT DISTINCT region FROM orders WHERE id > 3
SELECT ALL region FROM orders WHERE id > 21
SELECT count(*), count(region), count(DISTINCT customer) FROM orders WHERE id < 20
SELECT region, sum(amount) FROM orders WHERE id > 4 GROUP BY region
SELECT region, sum(amount) AS t FROM orders GROUP BY region HAVING t > 50
SELECT region, count(*) FROM orders WHERE id > 3 GROUP BY 1 HAVING count(*) > 3
SELECT region, customer, count(*) FROM orders GROUP BY ALL
SELECT region, mixed, count(*) FROM orders GROUP BY ROLLUP (region, mixed)
SELECT region, mixed, count(*) FROM orders WHERE id > 8 GROUP BY CUBE (region, mixed)
SELECT region, mixed, grouping(region), sum(id) FROM orders GROUP BY GROUPING SETS ((region), (mixed), ())
SELECT region, sum(id) FROM orders WHERE region = 'eu' GROUP BY region WITH ROLLUP
SELECT count(*) FILTER (WHERE region = 'eu') AS eu, count(*) AS n FROM orders
SELECT sum(CASE WHEN region = 'eu' THEN id END) FROM orders
SELECT any_value(mixed) IGNORE NULLS FROM orders WHERE mixed = 2
SELECT id FROM orders ORDER BY id DESC LIMIT 5
SELECT id FROM orders WHERE region = 'eu' ORDER BY id LIMIT 2 OFFSET 1
SELECT id FROM orders ORDER BY id LIMIT 3 OFFSET 10
SELECT id FROM orders ORDER BY amount DESC NULLS LAST, id LIMIT 4
SELECT id AS n, n + 1 AS m FROM orders WHERE id > 20
SELECT id + 1 AS id FROM orders WHERE id = 14
SELECT id AS region FROM orders WHERE region = 'us'
SELECT region AS id, id AS region FROM orders WHERE id = 5
SELECT o.id, p.name FROM orders o JOIN people p ON o.id = p.id WHERE p.region = 'eu'
SELECT o.id, p.name FROM orders o INNER JOIN people p ON o.customer = p.name AND p.id > 2 WHERE o.id > 10
SELECT o.id, p.id FROM orders o LEFT JOIN people p ON o.id = p.id AND p.id > 3 WHERE o.id < 8
SELECT o.id, p.id FROM orders o LEFT JOIN people p ON o.id = p.id WHERE p.id IS NULL
SELECT o.id, p.id FROM orders o LEFT OUTER JOIN people p ON o.id = p.id WHERE p.id > 5 OR o.id = 20
SELECT o.id, p.id FROM people p RIGHT JOIN orders o ON o.id = p.id WHERE p.id IS NULL AND o.id > 18
SELECT o.id, p.id FROM orders o FULL OUTER JOIN people p ON o.id = p.id + 20 WHERE o.id IS NULL OR o.id > 19
SELECT id FROM orders o LEFT SEMI JOIN people p ON o.id = p.id WHERE o.id > 3
SELECT id FROM orders o LEFT ANTI JOIN people p ON o.id = p.id WHERE o.id < 12
SELECT id FROM orders o SEMI JOIN tags ON o.id = tags.id
SELECT o.id, t.tag FROM orders o CROSS JOIN tags t WHERE o.id = t.id
SELECT o.id, t.tag FROM orders o, tags t WHERE o.id = t.id AND t.tag = 'new'
SELECT * FROM tags JOIN people USING (id)
SELECT id, tag, name FROM tags LEFT JOIN people USING (id) WHERE id > 3
SELECT id, tag, name FROM tags RIGHT JOIN people USING (id) WHERE tag IS NULL AND id > 5
SELECT id, tag, name FROM tags FULL JOIN people USING (id) WHERE id > 5
SELECT * FROM tags NATURAL JOIN people WHERE id = 1
SELECT id, tag FROM tags NATURAL LEFT JOIN people WHERE name IS NULL
SELECT a.id, b.id FROM orders a JOIN orders b ON a.id = b.id + 1 WHERE a.region = 'eu' AND b.id > 4
SELECT a.id, b.id FROM orders a LEFT JOIN orders b ON a.id = b.id AND b.region = 'eu' WHERE a.id < 6
SELECT a.id FROM {orders} a JOIN {people} b ON a.id = b.id JOIN {tags} c ON b.id = c.id WHERE c.tag = 'new'
SELECT p.id, b.name FROM people p JOIN (orders o JOIN people b ON o.id = b.id) ON p.boss = b.id WHERE o.id < 3
SELECT t.n FROM (SELECT id AS n, region FROM orders WHERE id > 4) t WHERE t.region = 'eu'
SELECT id FROM (SELECT id, region FROM orders) WHERE region = 'us' AND id > 10
SELECT o.id FROM (SELECT * FROM orders LIMIT 100) o WHERE o.id = 23
SELECT id FROM (SELECT 5 AS id) JOIN (SELECT region FROM orders WHERE id = 5) ON true
SELECT v.c, id FROM orders LATERAL VIEW explode(arr) v AS c WHERE v.c = 8
SELECT id, c FROM orders LATERAL VIEW explode(arr) s AS c WHERE s.c = 3
SELECT id, k, v FROM orders LATERAL VIEW OUTER explode(m) t AS k, v WHERE id < 4
SELECT id, a, b FROM orders LATERAL VIEW explode(arr) AS a LATERAL VIEW explode(arr) y AS b WHERE a < b AND id > 20
SELECT id, pos, c FROM orders LATERAL VIEW posexplode(arr) s AS pos, c WHERE s.pos = 1 AND c > 20
SELECT id, c FROM orders, LATERAL explode(arr) AS s(c) WHERE s.c = 4
SELECT id, c FROM orders, LATERAL (SELECT orders.id + 1 AS c) s WHERE s.c = 2
SELECT o.id, l.n FROM orders o, LATERAL (SELECT count(*) AS n FROM people p WHERE p.boss = o.id) l WHERE l.n > 0
SELECT o.id, l.m FROM orders o LEFT JOIN LATERAL (SELECT max(t.tag) AS m FROM tags t WHERE t.id = o.id) l ON true
SELECT id, s.c FROM orders, VALUES (1) AS s(c) WHERE s.c = 1 AND id < 4
SELECT id, v.c FROM orders JOIN VALUES (1, 'a'), (14, 'b') AS v(k, c) ON id = v.k
SELECT * FROM VALUES (1), (2) AS orders(id) WHERE id = 1
SELECT r.id, o.id FROM range(3) r JOIN orders o ON r.id = o.id
SELECT id FROM orders WHERE id IN (SELECT id FROM tags)
SELECT id FROM orders WHERE id NOT IN (SELECT id FROM tags)
SELECT id FROM orders WHERE id NOT IN (SELECT id FROM tags WHERE id IS NOT NULL)
SELECT id FROM orders WHERE (id, region) IN (SELECT id, region FROM people)
SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM people p WHERE p.boss = o.id)
SELECT id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM tags t WHERE t.id = o.id AND t.tag = 'new')
SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM tags WHERE tags.id = orders.id)
SELECT id FROM orders WHERE id > (SELECT avg(id) FROM people) AND region = 'eu'
SELECT id FROM orders o WHERE amount > (SELECT avg(amount) FROM orders i WHERE i.region = o.region)
SELECT id, (SELECT max(tag) FROM tags t WHERE t.id = o.id) AS tag FROM orders o WHERE id < 6
SELECT id, (SELECT count(*) FROM people) AS n FROM orders WHERE id = 1
SELECT id FROM orders WHERE customer LIKE ANY ('c1', 'c2') AND id > 12
SELECT id FROM orders WHERE region IN (SELECT region FROM people WHERE id = 1) AND id IN (SELECT id FROM people)
SELECT region FROM orders GROUP BY region HAVING count(*) > (SELECT count(*) FROM tags WHERE tag = 'new')
SELECT id FROM orders WHERE CASE WHEN EXISTS (SELECT 1 FROM tags WHERE id = 99) THEN id = 1 ELSE id = 2 END
WITH c AS (SELECT id, region FROM orders WHERE id > 10) SELECT * FROM c WHERE region = 'eu'
WITH c AS (SELECT id FROM orders), d AS (SELECT id FROM c WHERE id > 20) SELECT * FROM d
WITH orders AS (SELECT id + 100 AS id FROM people) SELECT * FROM orders WHERE id > 104
WITH people AS (SELECT id FROM orders WHERE id < 3) SELECT p.id FROM people p WHERE p.id = 1
WITH c AS (WITH d AS (SELECT id FROM orders WHERE id > 20) SELECT id + 1 AS id FROM d) SELECT * FROM c
WITH c (n) AS (SELECT id FROM orders) SELECT n FROM c WHERE n = 14
WITH c AS (SELECT * FROM orders) SELECT a.id FROM c a JOIN c b ON a.id = b.id + 1 WHERE a.id = 1 OR b.id = 19
WITH c AS (SELECT 1 AS id) SELECT o.id FROM orders o WHERE o.id IN (SELECT id FROM c)
SELECT * FROM (WITH orders AS (SELECT 7 AS id) SELECT id FROM orders) WHERE id = 7
WITH RECURSIVE c(n) AS (SELECT id FROM orders WHERE id = 20 UNION ALL SELECT n + 1 FROM c WHERE n < 23) SELECT n FROM c
WITH RECURSIVE c AS (SELECT id FROM people WHERE id = 0 UNION ALL SELECT p.id FROM people p JOIN c ON p.boss = c.id) SELECT * FROM c
SELECT id FROM orders WHERE id < 3 UNION SELECT id FROM people WHERE id < 5
SELECT id FROM orders WHERE id < 3 UNION ALL SELECT id FROM people WHERE id < 2
SELECT id FROM orders INTERSECT SELECT id FROM people WHERE id > 4
SELECT id FROM orders EXCEPT SELECT id FROM people
SELECT id FROM orders WHERE id > 20 MINUS SELECT 21
SELECT region FROM orders EXCEPT ALL SELECT region FROM people
SELECT region FROM orders INTERSECT ALL SELECT region FROM people
(SELECT id FROM orders WHERE id = 1) UNION (SELECT id FROM orders WHERE id = 14) ORDER BY id
SELECT id FROM orders WHERE region = 'eu' UNION ALL SELECT id FROM orders WHERE region = 'us' AND id < 9
SELECT * FROM (SELECT id FROM orders UNION ALL SELECT id FROM people) WHERE id = 4
SELECT id, row_number() OVER (PARTITION BY region ORDER BY id) AS n FROM orders WHERE id > 5
SELECT id, sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders WHERE region = 'us'
SELECT id, lag(id) OVER w, max(amount) OVER w FROM orders WINDOW w AS (PARTITION BY region ORDER BY id)
SELECT * FROM (SELECT id, rank() OVER (PARTITION BY region ORDER BY id DESC) AS r FROM orders) WHERE r = 1
SELECT id, row_number() OVER (ORDER BY id) AS n FROM orders WHERE region = 'eu' ORDER BY n LIMIT 3
SELECT * FROM (SELECT region, mixed, id FROM orders) PIVOT (count(id) FOR mixed IN (0, 1, 2)) WHERE region = 'eu'
SELECT * FROM (SELECT region, id FROM orders WHERE id > 4) PIVOT (max(id) FOR region IN ('eu' AS e, 'us' AS u))
SELECT id, col, val FROM orders UNPIVOT (val FOR col IN (`a name`, mixed)) WHERE val = 2
SELECT id, name, val FROM orders UNPIVOT INCLUDE NULLS (val FOR name IN (mixed AS id, `a name` AS x)) WHERE name = 'x'
SELECT id FROM orders TABLESAMPLE (100 PERCENT) WHERE id > 21
SELECT count(*) FROM orders TABLESAMPLE (5 ROWS)
SELECT /*+ BROADCAST(p) */ o.id FROM orders o JOIN people p ON o.id = p.id WHERE p.id = 4
SELECT /*+ MERGE(o, p) */ o.id FROM orders o JOIN people p ON o.id = p.id
SELECT /*+ REPARTITION(2), COALESCE(1) */ id FROM orders WHERE id > 20
SELECT id /* WHERE id = 1 */ FROM orders -- WHERE id = 2
SELECT/**/id/* , */FROM/* people */orders/**/WHERE/**/id>20
FROM orders SELECT id WHERE id > 20
FROM orders o JOIN people p ON o.id = p.id SELECT o.id, p.name WHERE p.id > 4
FROM orders
TABLE orders
TABLE tags UNION ALL SELECT id, region FROM people WHERE id = 3
SELECT * FROM (TABLE tags) WHERE id = 1
VALUES (1, 'FROM orders'), (2, 'x')
FROM orders |> WHERE id > 10 |> SELECT id, region |> WHERE region = 'eu'
FROM orders |> AGGREGATE count(*) AS n GROUP BY region |> WHERE n > 4
FROM orders |> EXTEND id + 1 AS n |> WHERE n = 15 |> SELECT id
FROM orders |> SET id = id + 100 |> WHERE id = 114 |> SELECT id, region
FROM orders |> SELECT id |> JOIN people USING (id) |> WHERE id > 5
FROM orders |> SELECT id |> UNION ALL SELECT id FROM people |> WHERE id = 4
FROM orders |> DROP region |> LIMIT 100 |> AGGREGATE max(id)
SELECT transform(arr, e -> e + 1) FROM orders WHERE id = 21
SELECT id, filter(arr, id -> id > 20) FROM orders WHERE exists(arr, id -> id = 21)
SELECT aggregate(arr, 0, (acc, id) -> acc + id) AS t FROM orders WHERE id > 20
SELECT id FROM orders WHERE exists(arr, s -> s = 7) AND s.c = 3
SELECT id, CASE region WHEN 'eu' THEN 1 WHEN 'us' THEN 2 ELSE 0 END AS c FROM orders WHERE id > 15
SELECT id FROM orders WHERE CASE WHEN region = 'eu' THEN id > 10 ELSE id < 5 END
SELECT id FROM orders WHERE if(region = 'eu', true, id = 2)
SELECT id FROM orders WHERE coalesce(region, 'none') = 'none'
SELECT id FROM orders WHERE nvl(customer, 'x') = 'x' AND nullif(id, 6) IS NULL
SELECT trim(BOTH 'c' FROM customer), substring(region FROM 2 FOR 1) FROM orders WHERE id > 20
SELECT position('u' IN region), overlay(region PLACING 'x' FROM 1) FROM orders WHERE id > 20
SELECT id FROM orders WHERE id IS DISTINCT FROM 5 AND region IS NOT DISTINCT FROM 'eu'
SELECT id FROM orders WHERE true
SELECT id FROM orders WHERE region = NULL OR id = 14
SELECT id FROM orders WHERE 1 = 0
SELECT id FROM orders WHERE id = id AND region = region
SELECT id FROM orders WHERE id::string = '14'
SELECT id::double, amount::int FROM orders WHERE id::bigint > 20
SELECT id FROM orders WHERE region IN ('eu', 'us') AND NOT region IN ('us')
SELECT id FROM orders WHERE region || 'x' = 'eux'
SELECT id FROM orders WHERE region = "eu" AND customer != r'c1'
SELECT id FROM orders WHERE id = 1 OR id = 14 AND region = 'us' OR s.a = 20
SELECT id FROM orders WHERE (id = 1 OR region = 'us') AND (id = 14 OR id = 6)
SELECT id FROM orders WHERE (((id))) = ((14))
SELECT id FROM orders WHERE 14 = id OR 20 <= id
SELECT id FROM orders WHERE -id < -20
SELECT id FROM orders WHERE id = 4 + 1 * 2
SELECT `orders`.`id` FROM `orders` WHERE `orders`.`region` = 'us'
SELECT ORDERS.ID FROM Orders WHERE oRDERS.Region = 'us'
SELECT id FROM {orders} AS `select` WHERE `select`.id = 15
SELECT struct(id, region) AS st, named_struct('a', id).a FROM orders WHERE id = 14
SELECT * EXCEPT (delta, x, m, arr, s) FROM orders WHERE id > 20
SELECT id FROM orders o WHERE o.id = (SELECT max(i.id) FROM orders i WHERE i.region = 'eu')
SELECT now.id FROM orders now LEFT JOIN {orders_1} AS old ON now.id = old.id WHERE old.id IS NULL
SELECT id FROM {orders_1} AS o WHERE o.region = 'us'
SELECT count(*) FROM {orders_1} AS orders WHERE orders.id < 5
SELECT id FROM {orders_1} AS o WHERE id IN (SELECT id FROM orders WHERE id > 3)
SELECT id FROM {orders_1} AS o EXCEPT SELECT id FROM orders
SELECT explode(arr) AS e FROM orders WHERE id > 21
SELECT inline(array(struct(id, region))) FROM orders WHERE id = 14
SELECT stack(2, id, mixed) FROM orders WHERE id > 21
SELECT max_by(id, amount), min_by(region, id) FROM orders WHERE region = 'eu'
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM orders WHERE region = 'us'
SELECT listagg(region, ',') WITHIN GROUP (ORDER BY id) FROM orders WHERE id > 18
SELECT region FROM orders WHERE id > 20 SORT BY region
SELECT id FROM orders WHERE id > 20 DISTRIBUTE BY region SORT BY id
SELECT id FROM orders WHERE id > 20 CLUSTER BY id
SELECT count(DISTINCT s.c, mixed) FROM orders WHERE s.name = 'n1'
SELECT id FROM orders WHERE hash(id) IS NOT NULL AND id > 21
SELECT `id` FROM orders WHERE date_add(placed, 1) = DATE'2024-12-07'
SELECT id, interval 1 day + placed AS p FROM orders WHERE placed < DATE'2024-02-01' + INTERVAL '10' DAY
SELECT id FROM orders WHERE IDENTIFIER('region') = 'us' AND id > 12
SELECT (SELECT max(id) FROM orders WHERE region = 'eu') - (SELECT min(id) FROM orders WHERE region = 'eu') AS d
SELECT o.s.a FROM orders o, people s WHERE s.id = o.id AND s.id > 4
SELECT tags.tag FROM orders AS people JOIN tags ON people.id = tags.id WHERE people.region = 'eu'
SELECT people.id FROM orders AS people WHERE people.id > 20
SELECT id FROM orders WHERE region = 'eu' AND id IN (SELECT t.id FROM tags t WHERE t.id = orders.id)
""".strip().splitlines()  # noqa: E501

# Every third form; the others are slow. Spark takes seconds for a recursive query.
ORDINARY = [form for form in FORMS[::3] if "RECURSIVE" not in form]

WITH_PARAMETERS = [
    ("SELECT id FROM orders WHERE id = :n AND region = :r", {"n": 5, "r": "eu"}),
    ("SELECT id FROM orders WHERE id > ? AND (region = ? OR id = ?)", [10, "us", 13]),
    ("SELECT id, :n AS n FROM orders WHERE placed > :d", {"n": None, "d": dt.date(2025, 1, 1)}),
    ("SELECT id FROM orders WHERE region = :r", {"r": None}),
    ("SELECT o.id FROM orders o JOIN people p ON o.id = p.id AND p.id > :n LIMIT :k", {"n": 1, "k": 50}),
    ("SELECT id FROM orders WHERE id IN (:a, :b) ORDER BY :a", {"a": 1, "b": 14}),
]


@pytest.mark.parametrize("form", ORDINARY)
def test_form(sides, form):
    compare(sides, form)


@pytest.mark.slow
@pytest.mark.parametrize("form", sorted({*FORMS}.difference(ORDINARY)))
def test_other_form(sides, form):
    compare(sides, form)


@pytest.mark.parametrize(("form", "args"), WITH_PARAMETERS)
def test_form_with_parameters(sides, form, args):
    compare(sides, form, args)


def test_forms_are_many():
    assert len(set(FORMS)) == len(FORMS) >= 150


def compare(sides, form, args=None):
    mine, theirs = (answer(run(form, args)) for run in sides)
    assert mine == theirs
