-- One row an order, test orders left out.
select id as order_id, customer, region, placed_on, status
from {{ source('raw', 'orders') }}
where not {{ is_test('customer') }}
