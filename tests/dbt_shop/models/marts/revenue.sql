select o.customer, r.manager, sum(l.amount) as revenue, count(*) as line_count
from {{ ref('stg_orders') }} o
join {{ ref('stg_lines') }} l on l.order_id = o.order_id
left join {{ ref('regions') }} r on r.region = o.region
group by o.customer, r.manager
