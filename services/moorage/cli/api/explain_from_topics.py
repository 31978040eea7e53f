"""Explanations without a query worker: this process reads the topics."""

from __future__ import annotations

import asyncio

from aiokafka.errors import KafkaError

from moorage.cli.api import endpoints
from moorage.cli.api.client import JsonObject
from moorage.cli.api.topics import quiet, unreachable
from moorage.cli.errors import CliError, ServerError, UsageError
from moorage.insight.copy.snapshot import SnapshotError
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
    bootstrap, prefix = endpoints.kafka()
    flags = endpoints.of_the_live(bootstrap)
    settings = endpoints.load_settings(flags, bootstrap_servers=bootstrap, topic_prefix=prefix)
    quiet()
    try:
        return document_of(asyncio.run(explain_from_topics(settings, asked)))
    except NotFoundError as error:
        raise ServerError(status=404, reason="NotFound", message=str(error)) from None
    except QuestionError as error:
        raise UsageError(f"--{error.field}: {error.rule}") from None
    except SnapshotError as error:
        raise CliError(
            f"Kafka at {bootstrap}: {error}.\n"
            "Create the topics with `moorage topics make`, or start everything with `moorage up`."
        ) from None
    except (KafkaError, TimeoutError, OSError) as error:
        raise unreachable(settings, error) from None
