"""Definitions in Python. Two functions return SQL, the others what has none."""

from pyspark import pipelines as dp

CAMPAIGNS = spark.conf.get("shop.campaigns").split(",")


@dp.temporary_view
def recent_clicks():
    return spark.table("clicks")


for campaign in CAMPAIGNS:

    @dp.materialized_view(name=f"clicks_{campaign}", table_properties={"ivm.mode": "warn"})
    def clicks_of(campaign=campaign):
        return spark.sql(
            f"SELECT page, count(*) AS clicks FROM recent_clicks WHERE campaign = '{campaign}' GROUP BY page"
        )


@dp.materialized_view(partition_cols=["region"])
def customers_by_region():
    return spark.read.table("customers")


@dp.materialized_view
def large_orders():
    return spark.table("orders").filter("amount > 100")


@dp.table
def events():
    return spark.readStream.table("raw_events")


dp.create_sink("alerts", "kafka", {"topic": "alerts"})
