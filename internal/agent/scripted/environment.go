package scripted

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"claudeops/internal/ops"
)

// Names of the variables the agent reads.
const (
	envTier      = "CLAUDEOPS_TIER"
	envRole      = "CLAUDEOPS_ROLE"
	envHandler   = "CLAUDEOPS_HANDLER"
	envStateDir  = "CLAUDEOPS_STATE_DIR"
	envConfigDir = "CLAUDE_CONFIG_DIR"
	envHome      = "HOME"
	envPace      = "CLAUDEOPS_DEMO_PACE"
	envRuns      = "CLAUDEOPS_EARLIER_RUNS"
)

// environment is what the process was started with.
type environment []string

func (e environment) lookup(name string) (string, bool) {
	// The last one wins, as in the environment of a started program.
	for i := len(e) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(e[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

func (e environment) tier() (ops.Tier, error) {
	text, _ := e.lookup(envTier)
	n, err := strconv.Atoi(text)
	if tier := ops.Tier(n); err == nil && tier.Known() {
		return tier, nil
	}
	return 0, fmt.Errorf("read %s: want 1, 2 or 3, found %q", envTier, text)
}

// pace is the factor of every pause; 0 means none.
func (e environment) pace() (float64, error) {
	text, ok := e.lookup(envPace)
	if !ok || text == "" {
		return 1, nil
	}
	pace, err := strconv.ParseFloat(text, 64)
	if err != nil || pace < 0 || math.IsNaN(pace) || pace > 1000 {
		return 0, fmt.Errorf("read %s: want a number from 0 to 1000, found %q", envPace, text)
	}
	return pace, nil
}

// expand replaces $NAME and ${NAME}. A name that is not set is an error: a path must not silently move to the root.
func (e environment) expand(text string) (string, error) {
	missing := ""
	out := os.Expand(text, func(name string) string {
		value, ok := e.lookup(name)
		if !ok || value == "" {
			missing = name
		}
		return value
	})
	if missing != "" {
		return "", fmt.Errorf("expand %q: the variable %s is not set", text, missing)
	}
	return out, nil
}

// earlier are the sessions that the cycle started before this one, as the supervisor tells them.
func (e environment) earlier() (runs []environment) {
	text, _ := e.lookup(envRuns)
	for run := range strings.FieldsSeq(text) {
		parts := strings.SplitN(run, "/", 3)
		if len(parts) == 3 {
			runs = append(runs, environment{envTier + "=" + parts[0], envRole + "=" + parts[1], envHandler + "=" + parts[2]})
		}
	}
	return runs
}

// configDir is where the agent keeps files between sessions; empty when there is no such folder.
func (e environment) configDir() string {
	if base, _ := e.lookup(envConfigDir); base != "" {
		return base
	}
	if home, _ := e.lookup(envHome); home != "" {
		return filepath.Join(home, ".claude")
	}
	return ""
}

// projectDir is where the conversations held in a working folder are kept; empty when there is no such folder.
func (e environment) projectDir(cwd string) string {
	base := e.configDir()
	if base == "" {
		return ""
	}
	return filepath.Join(base, "projects", strings.ReplaceAll(cwd, "/", "-"))
}
