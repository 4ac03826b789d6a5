"""Every test with a provider fails if a request broke a rule of the providers; a gateway waits for a slow database."""

from adapters.conftest import patient_gateway, provider_rules

__all__ = ["patient_gateway", "provider_rules"]
