{#
  materialized='ivm': the model's relation is a view over the table that ivm keeps of the same query.

  dbt runs no refresh here: `ivm adopt --dbt` made the view of the model, `ivm refresh` keeps it, and what ivm adopted is
  told by `dbt run --vars "$(cat FOLDER/dbt_vars.json)"`. A model that ivm hasn't adopted, or whose SQL is another one by
  now, is an error, not an old answer.
#}
{% materialization ivm, adapter='spark', supported_languages=['sql'] %}
  {%- set adopted = ivm.adopted(model.unique_id, compiled_code) -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set target = this.incorporate(type='view') -%}
  {%- set grants = config.get('grants') -%}

  {{ run_hooks(pre_hooks) }}

  {#- What ivm hasn't published yet fails here, before anything is dropped. #}
  {%- do run_query('select * from ' ~ adopted.table ~ ' limit 0') -%}
  {%- if existing is not none and not existing.is_view -%}
    {% do adapter.drop_relation(existing) %}
  {%- endif -%}
  {%- call statement('main') -%}
    {{ get_create_view_as_sql(target, 'select * from ' ~ adopted.table) }}
  {%- endcall -%}

  {% do apply_grants(target, grants, should_revoke=should_revoke(existing, full_refresh_mode=True)) %}
  {% do persist_docs(target, model) %}

  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target]}) }}
{% endmaterialization %}


{# Where ivm publishes a model's view; an error where ivm keeps none of this SQL. #}
{% macro adopted(id, sql) %}
  {%- set again = '`dbt compile --full-refresh`, `ivm adopt --dbt target/manifest.json --to FOLDER --again`, `ivm refresh -p FOLDER`' -%}
  {%- set views = var('ivm_views', none) -%}
  {%- if views is none -%}
    {{ exceptions.raise_compiler_error("materialized='ivm' needs to know what ivm adopted: dbt run --vars \"$(cat FOLDER/dbt_vars.json)\"") }}
  {%- endif -%}
  {%- if id not in views -%}
    {{ exceptions.raise_compiler_error('ivm has not adopted ' ~ id ~ ': ' ~ again) }}
  {%- endif -%}
  {%- if views[id].md5 != local_md5(sql.strip().rstrip(';')) -%}
    {{ exceptions.raise_compiler_error('ivm keeps an older query of ' ~ id ~ ', or one compiled for another target: ' ~ again) }}
  {%- endif -%}
  {{ return(views[id]) }}
{% endmacro %}
