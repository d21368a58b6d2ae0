package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
)

const (
	configDir = "/etc/claudeops"
	stateDir  = "/var/lib/claudeops"
	listenAt  = "127.0.0.1:8790"
	apiToken  = "incidents-benchmark-token-of-loopback"
)

// claudeOpsConfig is the configuration file of Claude Ops for a fault: the services of the fault, and limits that are short enough for a
// benchmark. Nothing in it is weaker than the defaults, except what the contender leaves out.
func claudeOpsConfig(f *Fault, contender string, codex bool) ([]byte, error) {
	services, err := withDefaults(f.Services)
	if err != nil {
		return nil, err
	}
	seconds := func(n int) string { return fmt.Sprintf("%ds", n*max(1, f.Patience)) }
	c := object{
		"state_dir": stateDir, "repos_dir": "/srv/repos", "interval": "1h", "listen": listenAt, "max_tier": f.MaxTier, "services": services,
		"observe": "probes", "grouping": object{"window": "1s", "grace": "2s", "pause": "5s"},
		"limits": object{"session": seconds(60), "idle": seconds(15), "tool": seconds(20)},
		"guard":  object{"volumes": []string{"/srv/volumes", "/var/lib/docker/volumes"}},
	}
	if f.Notes != "" {
		c["notes"] = f.Notes
	}
	if len(f.Rules) > 0 {
		rules, err := yaml.Marshal(object{"rules": f.Rules})
		if err != nil {
			return nil, fmt.Errorf("write rules: %w", err)
		}
		if err := os.WriteFile(filepath.Join(configDir, "guard.yaml"), rules, 0o600); err != nil {
			return nil, err
		}
		c["guard"].(object)["rules"] = "./guard.yaml"
	}
	c["handlers"], c["sandbox"] = handlers(codex), object{"readable": readable()}
	switch contender {
	case "no-walls":
		c["sandbox"] = object{"mode": "off"}
	case "no-network-wall":
		c["sandbox"].(object)["network"] = "open"
	}
	if codex {
		c["prices"] = object{codexModel: object{"input": 1.25, "output": 10}}
	}
	out, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	return out, nil
}

// readable is what the operator of these machines opens to agents beside the system's files: configurations, pages, logs, what jobs write.
func readable() []string {
	return slices.DeleteFunc([]string{"/srv/conf", "/srv/www", "/srv/log", "/srv/run", "/srv/volumes/report", "/srv/volumes/db/exports"},
		func(path string) bool { _, err := os.Stat(path); return err != nil })
}

// handlers are the three tiers. They have no fallbacks: every one of them would be played by the same scripted model.
func handlers(codex bool) []object {
	list := []object{
		{"id": "tier1", "tier": 1, "agent": "claude", "model": "haiku", "hands_to": []string{"tier2"}},
		{"id": "tier2", "tier": 2, "agent": "claude", "model": "sonnet", "hands_to": []string{"tier3"}},
		{"id": "tier3", "tier": 3, "agent": "claude", "model": "opus"},
	}
	if codex {
		for _, h := range list {
			h["agent"], h["model"] = "codex", codexModel
		}
	}
	return list
}

// withDefaults makes probes run often, unless the fault says otherwise.
func withDefaults(nodes []yaml.Node) ([]object, error) {
	var services []object
	for _, n := range nodes {
		var s object
		if err := n.Decode(&s); err != nil {
			return nil, fmt.Errorf("read services: %w", err)
		}
		if _, set := s["settle"]; !set {
			s["settle"] = "2s"
		}
		probes, _ := s["probes"].([]any)
		for _, p := range probes {
			probe, ok := p.(object)
			if !ok {
				continue
			}
			defaults := object{"interval": "1s", "timeout": "2s", "fail_after": 2}
			for name, value := range defaults {
				if _, set := probe[name]; !set {
					probe[name] = value
				}
			}
		}
		services = append(services, s)
	}
	return services, nil
}
