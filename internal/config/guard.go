package config

import (
	"time"

	"claudeops/internal/ops"
)

// Guard is what an agent may do beyond the lists of its CLI, and who else watches.
type Guard struct {
	Enabled        bool
	Rules          Prompt // the operator's own rules; empty without a file
	RequireVersion bool
	Hosts          []string
	Protected      []string
	Volumes        []string
	Limits         []ops.CooldownLimit
	UID            int // of the agents; 0 leaves the layer off
	Bubblewrap     bool
}

func guardSettings() []setting {
	return []setting{
		{
			key: "guard.enabled", env: "CLAUDEOPS_GUARD", def: "on", kind: boolKind(),
			doc: "Judge every tool call in code, before the CLI runs it and again before a shell does. What no gate allowed stops the session.",
		},
		{
			key: "guard.rules", kind: promptKind(), shown: "none",
			doc: "File of your own rules, each with examples that are checked at start.",
		},
		{
			key: "guard.require_version", def: "false", kind: boolKind(),
			doc: "Refuse a program that does not tell its version, which cannot be held to its gates.",
		},
		{
			key: "guard.hosts", kind: wordsKind("host names"),
			doc: "Hosts an agent may reach with ssh, by name.",
		},
		{
			key: "guard.protected_files", def: "ie.yaml,vms.yaml", kind: wordsKind("file names"),
			doc: "Infrastructure files that no tier may change, by base name or path.",
		},
		{
			key: "guard.volumes", def: "/volumes", kind: wordsKind("folders"),
			doc: "Folders of persistent data in which no tier may delete.",
		},
		{
			key: "cooldown.restarts", def: "2", kind: wholeKind(0, 1000),
			doc: "Most restarts of one service within `cooldown.restart_window`.",
		},
		{
			key: "cooldown.restart_window", def: "4h", kind: durationKind(time.Minute),
			doc: "The sliding window of restarts.",
		},
		{
			key: "cooldown.redeployments", def: "1", kind: wholeKind(0, 1000),
			doc: "Most redeployments of one service within `cooldown.redeployment_window`.",
		},
		{
			key: "cooldown.redeployment_window", def: "24h", kind: durationKind(time.Minute),
			doc: "The sliding window of redeployments.",
		},
	}
}

func sandboxSettings() []setting {
	return []setting{
		{
			key: "sandbox.bubblewrap", def: "off", kind: boolKind(),
			doc: "Run agents in namespaces of their own: file system read-only but for their folders, repositories writable from Tier 2, no volumes. Needs `bwrap`.",
		},
		{
			key: "sandbox.uid", def: "0", kind: wholeKind(0, 1<<31-1),
			doc: "Run agents as this user; 0 leaves them the supervisor's. Needs a supervisor that may change users.",
		},
	}
}

// wordsKind is a plain list.
func wordsKind(name string) kind {
	return kind{name: name + ", separated by commas", list: true, parse: func(_ places, v raw) (any, []fault) {
		words := []string{}
		for _, e := range v.entries(splitAtCommas) {
			if e.text != "" {
				words = append(words, e.text)
			}
		}
		return words, nil
	}}
}

func (c *Config) guard() Guard {
	k := c.values
	return Guard{
		Enabled: get[bool](k, "guard.enabled"), Rules: get[Prompt](k, "guard.rules"), RequireVersion: get[bool](k, "guard.require_version"),
		Hosts: get[[]string](k, "guard.hosts"), Protected: get[[]string](k, "guard.protected_files"), Volumes: get[[]string](k, "guard.volumes"),
		UID: get[int](k, "sandbox.uid"), Bubblewrap: get[bool](k, "sandbox.bubblewrap"),
		Limits: []ops.CooldownLimit{
			{Action: "restart", Count: get[int](k, "cooldown.restarts"), Window: get[time.Duration](k, "cooldown.restart_window")},
			{Action: "redeployment", Count: get[int](k, "cooldown.redeployments"), Window: get[time.Duration](k, "cooldown.redeployment_window")},
		},
	}
}
