"""Great Expectations' actions (mail, Slack, one's own) on the results of an epoch's checks.

They get what Great Expectations' own checkpoints give them, with values hidden unless they may be shown. An action is
run once for each check of an epoch: where a check is run again (a process died), so is it. One that fails is logged,
and holds nothing back.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from ivm.errors import ConfigError
from ivm.quality.results import Result
from ivm.refresh.context import Context
from ivm.session import error_text

_log = logging.getLogger(__name__)


def notify(context: Context, epoch: int, results: Sequence[Result]) -> None:
    """Run the pipeline's actions on an epoch's results, if there are any of either."""
    documents = list(dict.fromkeys(r.document for r in results if r.document))
    if not context.checking.actions or not documents:
        return
    try:
        checkpoint, result = _checkpoint(context, epoch, documents)
    except Exception as error:  # noqa: BLE001 - whoever is told late is told by the refresh itself
        _log.warning("the actions of the checks can't be run: %s", error_text(error) or type(error).__name__)
        return
    from great_expectations.checkpoint.actions import ActionContext

    shared = ActionContext()
    for action in checkpoint.actions:
        try:
            shared.update(action=action, action_result=action.run(checkpoint_result=result, action_context=shared))
        except Exception as error:  # noqa: BLE001 - one action's failure must not stop the others
            _log.warning("the action %s of the checks failed: %s", action.name, type(error).__name__)


def _checkpoint(context: Context, epoch: int, documents: Sequence[str]) -> tuple[Any, Any]:
    """A checkpoint with the actions, and the result that it would have had."""
    import great_expectations as gx
    from great_expectations.checkpoint.checkpoint import CheckpointResult
    from great_expectations.core.expectation_validation_result import expectationSuiteValidationResultSchema
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    from ivm.quality.expectations import gx_context

    gx_context()
    run = RunIdentifier(run_name=f"epoch {epoch}", run_time=datetime.now(UTC))
    found = {}
    for document in documents:
        suite = expectationSuiteValidationResultSchema.load(json.loads((context.layout.checks / document).read()))
        identifier = ValidationResultIdentifier(ExpectationSuiteIdentifier(suite.suite_name), run, document)
        found[identifier] = suite
    checkpoint = gx.Checkpoint(name=context.name, validation_definitions=[], actions=actions_of(context))
    return checkpoint, CheckpointResult(run_id=run, run_results=found, checkpoint_config=checkpoint)


def actions_of(context: Context) -> list[Any]:
    """The pipeline's actions as Great Expectations' objects. Raises ConfigError for what it doesn't know."""
    import great_expectations as gx

    from ivm.quality.expectations import gx_context

    gx_context()
    made: list[Any] = []
    for action in context.checking.actions:
        try:
            one = dict(action) if isinstance(action, dict) else action
            made += gx.Checkpoint(name=context.name, validation_definitions=[], actions=[one]).actions
        except Exception as error:
            what = action.get("type") if isinstance(action, dict) else type(action).__name__
            raise ConfigError(
                f"The action {what} of the checks is not right: {(str(error).splitlines() or [''])[0]}.",
                "Its arguments are those of Great Expectations' action of that type.",
            ) from error
    return made
