{# The tables that the sources name, where they lie: dbt run-operation raw_tables --args '{lake: FOLDER}' #}
{% macro raw_tables(lake) %}
  {% do run_query('create schema if not exists shop_raw') %}
  {% for name in ['orders', 'order_lines'] %}
    {% do run_query('create table if not exists shop_raw.' ~ name ~ ' using delta location "' ~ lake ~ '/' ~ name ~ '"') %}
  {% endfor %}
{% endmacro %}
