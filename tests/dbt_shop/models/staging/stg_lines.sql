{{ config(materialized='ephemeral') }}
select order_id, number, quantity * price as amount from {{ source('raw', 'lines') }}
