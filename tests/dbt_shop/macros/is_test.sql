{% macro is_test(column) %}({{ column }} like 'test%'){% endmacro %}
