package discover

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

// entry is a service as the configuration has it.
type entry struct {
	Name      string   `yaml:"name"`
	Aliases   []string `yaml:"aliases,omitempty,flow"`
	Group     string   `yaml:"group,omitempty"`
	DependsOn []string `yaml:"depends_on,omitempty,flow"`
	Probes    []check  `yaml:"probes,omitempty"`
}

type check struct {
	Type         string   `yaml:"type"`
	Name         string   `yaml:"name,omitempty"`
	URL          string   `yaml:"url,omitempty"`
	Method       string   `yaml:"method,omitempty"`
	ExpectStatus []int    `yaml:"expect_status,omitempty,flow"`
	ExpectBody   string   `yaml:"expect_body,omitempty"`
	ExpectRegexp string   `yaml:"expect_regexp,omitempty"`
	ExpectJSON   []string `yaml:"expect_json,omitempty"`
	CertDays     int      `yaml:"cert_days,omitempty"`
	Address      string   `yaml:"address,omitempty"`
	Host         string   `yaml:"host,omitempty"`
	Record       string   `yaml:"record,omitempty"`
	Server       string   `yaml:"server,omitempty"`
	Expect       []string `yaml:"expect,omitempty,flow"`
	Container    string   `yaml:"container,omitempty"`
	MaxRestarts  int      `yaml:"max_restarts,omitempty"`
	Unit         string   `yaml:"unit,omitempty"`
	Process      string   `yaml:"process,omitempty"`
	Timeout      string   `yaml:"timeout,omitempty"`
	SlowAfter    string   `yaml:"slow_after,omitempty"`
	Interval     string   `yaml:"interval,omitempty"`
	FailAfter    int      `yaml:"fail_after,omitempty"`
	RecoverAfter int      `yaml:"recover_after,omitempty"`
}

func checkOf(p ops.ProbeSpec) check {
	text := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	c := check{
		Type: p.Type, Name: p.Name, URL: p.URL, Method: p.Method, ExpectStatus: p.ExpectStatus, ExpectBody: p.ExpectBody,
		ExpectRegexp: p.ExpectRegexp, ExpectJSON: p.ExpectJSON, CertDays: p.CertDays, Address: p.Address, Host: p.Host, Record: p.Record,
		Server: p.Server, Expect: p.Expect, Container: p.Container, MaxRestarts: p.MaxRestarts, Unit: p.Unit, Process: p.Process,
		Timeout: text(p.Timeout), SlowAfter: text(p.SlowAfter), Interval: text(p.Interval), FailAfter: p.FailAfter, RecoverAfter: p.RecoverAfter,
	}
	if p.Timeout == defaultTimeout {
		c.Timeout = ""
	}
	if p.Method == "GET" {
		c.Method = ""
	}
	return c
}

// YAML is what an operator adds to the configuration to have the services watched, each with where it was found.
func YAML(found []Found) (string, error) {
	var out strings.Builder
	out.WriteString("services:\n")
	for _, f := range found {
		e := entry{Name: f.Service.Name, Aliases: f.Service.Aliases, Group: f.Service.Group, DependsOn: f.Service.DependsOn}
		for _, p := range f.Probes {
			e.Probes = append(e.Probes, checkOf(p))
		}
		var b bytes.Buffer
		encoder := yaml.NewEncoder(&b)
		encoder.SetIndent(2)
		if err := encoder.Encode([]entry{e}); err != nil {
			return "", fmt.Errorf("write service %s: %w", f.Service.Name, err)
		}
		fmt.Fprintf(&out, "  # %s:%d\n", f.File, f.Line)
		for line := range strings.Lines(b.String()) {
			out.WriteString("  " + line)
		}
	}
	return out.String(), nil
}
