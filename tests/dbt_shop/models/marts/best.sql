select customer, revenue from {{ ref('revenue') }} where revenue >= 20
