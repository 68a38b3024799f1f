"""A dbt project as a pipeline: manifest -> what dbt says of models, tables and tests -> views, checks, and the rest."""
