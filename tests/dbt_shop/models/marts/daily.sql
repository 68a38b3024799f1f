{{ config(materialized='incremental', incremental_strategy='merge', unique_key='placed_on', file_format='delta') }}
select placed_on, count(*) as orders
from {{ ref('stg_orders') }}
{% if is_incremental() %}
where placed_on >= (select max(placed_on) from {{ this }})
{% endif %}
group by placed_on
