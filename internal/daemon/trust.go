package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/watch/discover"
)

// trustFile records which services of repositories the operator accepted. It is in the state folder, where no agent writes.
const trustFile = "trusted-services.json"

// trust holds the accepted services by environment. An environment that is missing was never asked about.
type trust struct {
	Version      int                            `json:"version"`
	Environments map[string][]discover.Accepted `json:"environments"`
}

func readTrust(c *config.Config) (trust, error) {
	t := trust{Version: 1, Environments: map[string][]discover.Accepted{}}
	path := filepath.Join(c.StateDir, trustFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, fmt.Errorf("read accepted services: %w", err)
	}
	err = json.Unmarshal(data, &t)
	if err == nil && (t.Version != 1 || t.Environments == nil) {
		err = fmt.Errorf("unknown version %d", t.Version)
	}
	if err != nil {
		return t, fmt.Errorf("read accepted services: %s is invalid (%w); remove it and run 'claudeops services accept' again", path, err)
	}
	return t, nil
}

// write replaces the file at once: half a file would lose services.
func (t trust) write(c *config.Config) error {
	text, err := json.MarshalIndent(t, "", "  ")
	if err == nil {
		err = os.MkdirAll(c.StateDir, 0o700)
	}
	if err == nil {
		err = replaceFile(filepath.Join(c.StateDir, trustFile), append(text, '\n'), nil)
	}
	if err != nil {
		return fmt.Errorf("write accepted services: %w", err)
	}
	return nil
}

// Trust adds accepted services to the configuration if services_discovery is trust, and returns how they compare with what the
// repositories say now. Configured services are never changed. The first time, everything that is found counts as accepted, because
// the operator has just switched trust on; remember stores that.
func Trust(ctx context.Context, c *config.Config, remember bool) ([]Discovered, error) {
	if c.Discovery == config.DiscoveryOff {
		return nil, nil
	}
	all, err := Discover(ctx, c)
	if err != nil || c.Discovery != config.DiscoveryTrust {
		return all, err
	}
	accepted, err := readTrust(c)
	if err != nil {
		return nil, err
	}
	first := false
	for _, d := range all {
		if _, asked := accepted.Environments[d.Environment]; !asked {
			accepted.Environments[d.Environment] = acceptedOf(d.New())
			first = true
		}
		var services []ops.Service
		var probes []ops.ProbeSpec
		for _, f := range d.Watched() {
			services = append(services, f.Service)
			probes = append(probes, f.Probes...)
		}
		c.Adopt(d.Environment, services, probes)
	}
	if first && remember {
		return all, accepted.write(c)
	}
	return all, nil
}

func acceptedOf(found []discover.Found) []discover.Accepted {
	out := []discover.Accepted{}
	for _, f := range found {
		if f.Standing != discover.Gone {
			out = append(out, f.Accept())
		}
	}
	return out
}

// AcceptServices accepts the current definitions of the named services, or of all, and returns the changes. They take effect at
// the next start.
func AcceptServices(ctx context.Context, c *config.Config, names []string) ([]Discovered, error) {
	all, err := Discover(ctx, c)
	if err != nil {
		return nil, err
	}
	t, err := readTrust(c)
	if err != nil {
		return nil, err
	}
	for i, d := range all {
		before, asked := t.Environments[d.Environment]
		wanted := func(f discover.Found) bool { return len(names) == 0 || slices.Contains(names, f.Service.Name) }
		after := []discover.Accepted{}
		var changed []discover.Found
		for _, f := range d.New() {
			switch {
			case wanted(f) && f.Standing == discover.Gone:
				changed = append(changed, f)
			case wanted(f):
				after = append(after, f.Accept())
				if f.Standing != discover.Trusted {
					changed = append(changed, f)
				}
			default: // stays as it was accepted, if it was
				k := slices.IndexFunc(before, func(a discover.Accepted) bool {
					return a.Repository == f.Repository && a.Service.Name == f.Service.Name
				})
				if asked && k >= 0 {
					after = append(after, before[k])
				}
			}
		}
		t.Environments[d.Environment] = after
		all[i].Found = changed
	}
	return all, t.write(c)
}
