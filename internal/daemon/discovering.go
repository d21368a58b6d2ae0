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

// Discover reads the repositories of every environment, and compares what they say with what was accepted where that matters. It
// changes nothing.
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

// discoverServices looks at the repositories once, at start. They are no reason not to start.
func (o Options) discoverServices(ctx context.Context) {
	all, err := Trust(ctx, o.Config, true)
	if err != nil {
		o.Logger.WarnContext(ctx, "services of repositories are not known", "error", err)
		return
	}
	for _, d := range all {
		message, n := "repositories name services that are not configured; 'claudeops services discover' shows them", len(d.New())
		if o.Config.Discovery == config.DiscoveryTrust {
			message, n = "services that repositories name are watched; 'claudeops services discover' shows them", len(d.Watched())
		}
		if n > 0 {
			o.Logger.InfoContext(ctx, message, "environment", d.Environment, "services", n)
		}
		if n := len(d.Unaccepted()); n > 0 {
			o.Logger.WarnContext(ctx, "repositories say something else about services than was accepted, which stays in use; 'claudeops services discover' shows it, "+
				"'claudeops services accept' takes it", "environment", d.Environment, "services", n)
		}
		if n := len(d.Problems); n > 0 {
			o.Logger.WarnContext(ctx, "repositories say things about services that cannot be used; 'claudeops services discover' names them",
				"environment", d.Environment, "problems", n)
		}
	}
}
