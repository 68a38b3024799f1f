-- Orders that were paid; each view below has this query in it.
CREATE TEMPORARY VIEW paid AS
SELECT id, customer, amount FROM orders WHERE status = 'paid';

CREATE MATERIALIZED VIEW customer_totals
  (customer STRING COMMENT 'as in customers', orders BIGINT, total BIGINT)
  USING delta
  CLUSTER BY (customer)
  TBLPROPERTIES ('ivm.mode' = 'incremental', ivm.freshness = '1h', 'ivm.primary_key' = 'customer', 'delta.appendOnly' = 'false')
AS -- a customer without orders has no row
SELECT customer, count(*) AS orders, sum(amount) AS total
FROM paid
GROUP BY customer;

CREATE MATERIALIZED VIEW region_totals AS
WITH named AS (SELECT customer, region FROM shop.customers WHERE region IS NOT NULL)
SELECT n.region, sum(t.total) AS total
FROM shop.customer_totals AS t JOIN named AS n ON n.customer = t.customer
GROUP BY n.region;

SET spark.sql.ansi.enabled = true;

CREATE STREAMING TABLE clicks TBLPROPERTIES ('ivm.primary_key' = 'click')
AS SELECT * FROM STREAM raw_clicks;

CREATE FLOW late_clicks AS INSERT INTO clicks BY NAME SELECT * FROM STREAM(raw.late_clicks)
