select * from {{ ref('revenue') }} where revenue < 0
