{#
  materialized='ivm': the model's relation is a view over the table that ivm keeps of the same query.

  dbt runs no refresh here: `ivm adopt --dbt` made the view of the model, `ivm refresh` keeps it, and what ivm adopted is
  told by `dbt run --vars "$(cat FOLDER/dbt_vars.json)"`. A model that ivm hasn't adopted, whose compiled SQL is another
  one by now, or that reads a model without a table whose text is another one, is an error, not an old answer.

  Not seen here: that what was adopted isn't refreshed yet (until `ivm refresh`, the table is of the query before), and
  that a model under this one compiles to something else from the same text (by a variable, a macro or a setting
  elsewhere): its compiled SQL isn't in dbt's graph.
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


{# Where ivm publishes a model's view; an error where ivm has adopted none of this SQL. #}
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
  {%- for upstream, md5 in views[id].under.items() -%}
    {%- if upstream not in graph.nodes or local_md5(graph.nodes[upstream].raw_code) != md5 -%}
      {{ exceptions.raise_compiler_error('ivm keeps a query of ' ~ id ~ ' over an older ' ~ upstream ~ ': ' ~ again) }}
    {%- endif -%}
  {%- endfor -%}
  {{ return(views[id]) }}
{% endmacro %}
