"""Every test with a provider fails if a request broke a rule of the providers."""

from adapters.conftest import provider_rules

__all__ = ["provider_rules"]
