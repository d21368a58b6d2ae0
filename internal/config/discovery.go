package config

import (
	"slices"

	"claudeops/internal/ops"
)

// Discovery is what becomes of services that repositories name.
type Discovery string

// The ways to treat them.
const (
	DiscoveryOff   Discovery = "off"
	DiscoveryShow  Discovery = "show"
	DiscoveryTrust Discovery = "trust"
)

func discoveryKind() kind {
	return choiceKind("a way to treat services of repositories", string(DiscoveryOff), string(DiscoveryShow), string(DiscoveryTrust))
}

// Adopt adds services to an environment as if they stood at the end of its list. The caller made sure that their names are free.
func (c *Config) Adopt(environment string, services []ops.Service, probes []ops.ProbeSpec) {
	for i := range c.environments {
		e := &c.environments[i]
		if e.name != environment {
			continue
		}
		// Environments may share one list, so it is never appended to in place.
		e.inventory.services.Services = slices.Concat(e.inventory.services.Services, services)
		e.inventory.probes = slices.Concat(e.inventory.probes, probes)
	}
}
