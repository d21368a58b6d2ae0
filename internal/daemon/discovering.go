package daemon

import (
	"context"
	"fmt"

	"claudeops/internal/config"
	"claudeops/internal/discover"
	"claudeops/internal/ops"
	"claudeops/internal/probe"
)

// Discovered is what the repositories of one environment say about services.
type Discovered struct {
	Environment string
	discover.Result
}

// Discover reads the repositories of every environment. It changes nothing.
func Discover(ctx context.Context, c *config.Config) ([]Discovered, error) {
	var out []Discovered
	for _, e := range c.Environments() {
		if e.ReposDir == "" {
			continue
		}
		found, err := discover.Scan(ctx, e.ReposDir, discover.Options{
			Known: e.Policy.Inventory, CheckProbe: probe.Validate, ProbeName: probe.Describe,
		})
		if err != nil {
			return nil, fmt.Errorf("find services of %s: %w", e.Name, err)
		}
		out = append(out, Discovered{e.Name, found})
	}
	return out, nil
}

// Trust adds what repositories name to the configuration where the operator wished so. What is configured is never changed.
func Trust(ctx context.Context, c *config.Config) ([]Discovered, error) {
	if c.Discovery == config.DiscoveryOff {
		return nil, nil
	}
	all, err := Discover(ctx, c)
	if err != nil || c.Discovery != config.DiscoveryTrust {
		return all, err
	}
	for _, d := range all {
		var services []ops.Service
		var probes []ops.ProbeSpec
		for _, f := range d.New() {
			services = append(services, f.Service)
			probes = append(probes, f.Probes...)
		}
		c.Adopt(d.Environment, services, probes)
	}
	return all, nil
}

// discoverServices looks at the repositories once, at start. They are no reason not to start.
func (o Options) discoverServices(ctx context.Context) {
	all, err := Trust(ctx, o.Config)
	if err != nil {
		o.Logger.WarnContext(ctx, "services of repositories are not known", "error", err)
		return
	}
	for _, d := range all {
		message := "repositories name services that are not configured; 'claudeops services discover' shows them"
		if o.Config.Discovery == config.DiscoveryTrust {
			message = "services that repositories name are watched; 'claudeops services discover' shows them"
		}
		if n := len(d.New()); n > 0 {
			o.Logger.InfoContext(ctx, message, "environment", d.Environment, "services", n)
		}
		if n := len(d.Problems); n > 0 {
			o.Logger.WarnContext(ctx, "repositories say things about services that cannot be used; 'claudeops services discover' names them",
				"environment", d.Environment, "problems", n)
		}
	}
}
