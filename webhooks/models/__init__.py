from webhooks.models.inbox import Delivery, DeliveryAttempt, JobStart, Refusal, Rule, SandboxToken, Secret
from webhooks.models.resources import Activity, ActivityDigest, Resource, SandboxSession, SandboxTelemetry
