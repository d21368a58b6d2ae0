package config

import (
	"os"
	"regexp"
	"runtime"
	"time"
)

// Host is who this supervisor is among those that share a database.
type Host struct {
	Name   string
	Labels []string
	Lease  time.Duration
	// DiskReserve is how many bytes must be free where the state folder lies for a session to start.
	DiskReserve int64
	// Sessions is how many agents run at once.
	Sessions int
}

// Names of hosts and labels are shown in lists and lines of log.
var hostName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// leastLease is what a busy machine still manages to renew in time.
const leastLease = 3 * time.Second

func hostSettings() []setting {
	return []setting{
		{
			key: "database_url", env: "CLAUDEOPS_DATABASE_URL", kind: databaseKind(), secret: true, shown: "SQLite in the state folder",
			doc: "PostgreSQL 13 or later, for several hosts. Each needs a state folder of its own all the same.",
		},
		{
			key: "host.name", env: "CLAUDEOPS_HOST", kind: hostKind(), shown: "the machine's name",
			doc: "Name of this host among those that share the database. Must be its own.",
		},
		{
			key: "host.labels", env: "CLAUDEOPS_HOST_LABELS", kind: wordsKind("labels"),
			doc: "What this host can reach. It takes only environments all of whose `labels` it has.",
		},
		{
			key: "host.lease", env: "CLAUDEOPS_HOST_LEASE", def: "12s", kind: durationKind(leastLease),
			doc: "How long a host may give no sign of life before others continue its cycles. It stops its own agents at two thirds of it. The same on all hosts.",
		},
		{
			key: "host.sessions", env: "CLAUDEOPS_MAX_SESSIONS", def: "0", kind: wholeKind(0, 10_000), shown: "two for each core, at least 4",
			doc: "Most cycles this host works on at once, each with at most one agent. The others stay queued; one that has begun is not kept waiting by them.",
		},
		{
			key: "host.disk_reserve", env: "CLAUDEOPS_DISK_RESERVE", def: "64", kind: wholeKind(0, 1<<20),
			doc: "Megabytes that must be free where the state folder lies. Below that no session starts and a running one changes nothing; 0 means that nobody asks.",
		},
	}
}

func hostKind() kind {
	return kind{name: "name", parse: func(_ places, v raw) (any, []fault) {
		if !hostName.MatchString(v.text) {
			return nil, wrong(v, "use letters, digits, dots, dashes and underscores, at most 63", "%q is not a name for a host", v.text)
		}
		return v.text, nil
	}}
}

func (c *Config) host() Host {
	k := c.values
	h := Host{Name: get[string](k, "host.name"), Labels: get[[]string](k, "host.labels"), Lease: get[time.Duration](k, "host.lease")}
	h.DiskReserve, h.Sessions = int64(get[int](k, "host.disk_reserve"))<<20, get[int](k, "host.sessions")
	if h.Sessions == 0 {
		h.Sessions = max(4, 2*runtime.NumCPU())
	}
	if h.Name != "" {
		return h
	}
	h.Name = "localhost"
	if name, err := os.Hostname(); err == nil && name != "" {
		h.Name = name
	}
	return h
}
