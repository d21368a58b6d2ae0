package daemon

import (
	"context"
	"fmt"

	"claudeops/internal/config"
	"claudeops/internal/watch/discover"
	"claudeops/internal/watch/probe"
)

// Discovered is what the repositories of one environment say about services.
type Discovered struct {
	Environment string
	discover.Result
}

// Discover reads the repositories of every environment and, with services_discovery: trust, compares them with what was accepted.
// It changes nothing.
func Discover(ctx context.Context, c *config.Config) ([]Discovered, error) {
	var accepted trust
	if c.Discovery == config.DiscoveryTrust {
		var err error
		if accepted, err = readTrust(c); err != nil {
			return nil, err
		}
	}
	var out []Discovered
	for _, e := range c.Environments() {
		if e.ReposDir == "" {
			continue
		}
		known, asked := accepted.Environments[e.Name]
		found, err := discover.Scan(ctx, e.ReposDir, discover.Options{
			Known: e.Policy.Inventory, CheckProbe: probe.Validate, ProbeName: probe.Describe, Asked: asked, Accepted: known,
		})
		if err != nil {
			return nil, fmt.Errorf("find services of %s: %w", e.Name, err)
		}
		out = append(out, Discovered{e.Name, found})
	}
	return out, nil
}

// discoverServices reads the repositories once, at start. A failure does not prevent the start.
func (o Options) discoverServices(ctx context.Context) {
	all, err := Trust(ctx, o.Config, true)
	if err != nil {
		o.Logger.WarnContext(ctx, "cannot read services from repositories", "error", err)
		return
	}
	for _, d := range all {
		trusted := o.Config.Discovery == config.DiscoveryTrust
		if n := len(d.Watched()); trusted && n > 0 {
			o.Logger.InfoContext(ctx, "services from repositories are watched; 'claudeops services discover' lists them",
				"environment", d.Environment, "services", n)
		}
		if n := len(d.New()); !trusted && n > 0 {
			o.Logger.InfoContext(ctx, "repositories define services that are not configured; 'claudeops services discover' lists them",
				"environment", d.Environment, "services", n)
		}
		if n := len(d.Unaccepted()); n > 0 {
			o.Logger.WarnContext(ctx, "services in repositories changed since they were accepted, and the accepted definitions stay in use; "+
				"'claudeops services discover' lists the changes, 'claudeops services accept' accepts them",
				"environment", d.Environment, "services", n)
		}
		if n := len(d.Problems); n > 0 {
			o.Logger.WarnContext(ctx, "some service definitions in repositories cannot be used; 'claudeops services discover' lists them",
				"environment", d.Environment, "problems", n)
		}
	}
}
