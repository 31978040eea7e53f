"""Explanations without a query worker: this process reads the topics."""

from __future__ import annotations

from moorage.cli.api import endpoints, topics
from moorage.cli.api.client import JsonObject
from moorage.cli.errors import ServerError, UsageError
from moorage.insight.explain.answer import explain_from_topics
from moorage.insight.explain.document import document_of
from moorage.insight.explain.explanation import NotFoundError
from moorage.insight.explain.question import Question, QuestionError


def explain(asked: Question) -> JsonObject:
    """Return an explanation as a document.

    Raises:
        UsageError: a node is named for a workload that is placed on clusters, or a cluster for one on nodes.
        CliError: the object does not exist, or Kafka does not answer.
    """
    settings = endpoints.live_settings()
    try:
        return document_of(topics.run(settings, explain_from_topics(settings, asked)))
    except NotFoundError as error:
        raise ServerError(status=404, reason="NotFound", message=str(error)) from None
    except QuestionError as error:
        raise UsageError(f"--{error.field}: {error.rule}") from None
