"""The epoch protocol: plan, apply, check, publish, commit, compact. Each step may be run again."""
