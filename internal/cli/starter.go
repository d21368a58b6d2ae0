package cli

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/watch/survey"
)

// targetsFile holds the notification targets, which are secrets, beside the configuration.
const targetsFile = "claudeops.apprise"

// answers are what a person chose for the configuration.
type answers struct {
	services []survey.Service
	socket   string // of the Docker engine, if it is not the usual one
	agent    string
	targets  string // an Apprise URL
	api      string // or the address of an Apprise API server
	dryRun   bool
}

// codexTiers are three tiers with Codex, in place of the models of Claude.
const codexTiers = `max_tier: 3
handlers:
  - {id: tier1, tier: 1, agent: codex, model: gpt-5.3-codex, hands_to: [tier2]}
  - {id: tier2, tier: 2, agent: codex, model: gpt-5.3-codex, hands_to: [tier3]}
  - {id: tier3, tier: 3, agent: codex, model: gpt-5.3-codex}`

// configuration is the starter file with the answers in it.
func (a answers) configuration() (string, error) {
	text := starter
	if !a.dryRun {
		text = section(text, "dry_run", "dry_run: false")
	}
	if len(a.services) > 0 {
		list, err := a.serviceList()
		if err != nil {
			return "", err
		}
		text = section(text, "services", list)
	}
	if a.agent == agentCodex {
		text = section(text, "max_tier", codexTiers)
	}
	switch {
	case a.targets != "":
		text = section(text, "notify", "notify:\n  apprise_urls_file: "+targetsFile)
	case a.api != "":
		url, err := yaml.Marshal(a.api)
		if err != nil {
			return "", fmt.Errorf("write notification target: %w", err)
		}
		text = section(text, "notify", "notify:\n  apprise_api: "+strings.TrimSpace(string(url)))
	}
	return text, nil
}

// section replaces a setting of the starter file, switched on or not, and keeps the comment before it.
func section(text, key, body string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		var comment []string
		for line := range strings.Lines(p) {
			line = strings.TrimRight(line, "\n")
			if strings.HasPrefix(line, key+":") || strings.HasPrefix(line, "#"+key+":") {
				paragraphs[i] = strings.Join(append(comment, body), "\n")
				return strings.Join(paragraphs, "\n\n")
			}
			comment = append(comment, line)
		}
	}
	return text
}

// serviceEntry is a service as the configuration has it.
type serviceEntry struct {
	Name   string       `yaml:"name"`
	Probes []probeEntry `yaml:"probes"`
}

type probeEntry struct {
	Type      string `yaml:"type"`
	Container string `yaml:"container,omitempty"`
	Socket    string `yaml:"socket,omitempty"`
	Unit      string `yaml:"unit,omitempty"`
	Address   string `yaml:"address,omitempty"`
}

func (a answers) serviceList() (string, error) {
	var out strings.Builder
	if a.socket != "" {
		socket, err := yaml.Marshal(a.socket)
		if err != nil {
			return "", fmt.Errorf("write Docker socket: %w", err)
		}
		out.WriteString("docker:\n  socket: " + string(socket))
	}
	out.WriteString("services:\n")
	for _, s := range a.services {
		w := serviceEntry{Name: s.Name}
		for _, p := range s.Probes() {
			probe := probeEntry{Type: p.Type, Container: p.Container, Unit: p.Unit, Address: p.Address}
			if p.Container != "" {
				probe.Socket = a.socket
			}
			w.Probes = append(w.Probes, probe)
		}
		var b bytes.Buffer
		encoder := yaml.NewEncoder(&b)
		encoder.SetIndent(2)
		if err := encoder.Encode([]serviceEntry{w}); err != nil {
			return "", fmt.Errorf("write service %s: %w", s.Name, err)
		}
		fmt.Fprintf(&out, "  # %s\n", clean(s.Detail))
		for line := range strings.Lines(b.String()) {
			out.WriteString("  " + line)
		}
	}
	return strings.TrimRight(out.String(), "\n"), nil
}
