package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// hidden stands for a secret that is set.
const hidden = "[redacted]"

// Setting is one effective value, for listings.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`  // secrets are redacted
	Origin string `json:"origin"` // default, file:line, environment NAME, or flag --name
	Env    string `json:"env,omitempty"`
	Doc    string `json:"doc"`
}

// Show lists every setting with its value and where that came from.
func (c *Config) Show() []Setting {
	var out []Setting
	for _, s := range settings() {
		out = append(out, Setting{Key: s.key, Value: c.show(s), Origin: c.origins[s.key].String(), Env: s.env, Doc: s.doc})
	}
	return out
}

func (c *Config) show(s setting) string {
	switch s.key {
	case "services":
		return c.showServices()
	case "environments":
		var names []string
		for _, e := range c.environments {
			names = append(names, e.name)
		}
		return strings.Join(names, ",")
	case "handlers":
		var ids []string
		for _, h := range c.registered() {
			ids = append(ids, h.ID)
		}
		return strings.Join(ids, ",")
	case "maintenance":
		return c.showMaintenance()
	case "notify.routes":
		var names []string
		for _, r := range c.NoticeRoutes {
			names = append(names, r.Name)
		}
		return strings.Join(names, ",")
	case "escalation.entry":
		return c.entry
	case "escalation.routes":
		var routes []string
		for _, r := range c.routes {
			routes = append(routes, r.From+" to "+r.To)
		}
		return strings.Join(routes, ",")
	case "models":
		return strings.Join(slices.Sorted(maps.Keys(c.windows)), ",")
	case "prices":
		return strings.Join(slices.Sorted(maps.Keys(c.Prices)), ",")
	case "recovery.rules":
		var ids []string
		for _, r := range c.Recovery.Rules {
			ids = append(ids, r.ID)
		}
		return strings.Join(ids, ",")
	}
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		switch s.key {
		case fmt.Sprintf("tiers.%d.allowed_tools", t):
			return strings.Join(c.Tiers[t].Tools.Allowed, ",")
		case fmt.Sprintf("tiers.%d.disallowed_tools", t):
			return strings.Join(c.Tiers[t].Tools.Disallowed, ",")
		}
	}
	value := c.values.Get(s.key)
	if value == nil {
		return ""
	}
	if s.secret {
		return hidden
	}
	text := showValue(value)
	if strings.Contains(text, "://") {
		text = withoutPassword(text)
	}
	return text
}

func showValue(value any) string {
	switch v := value.(type) {
	case time.Duration:
		return v.String()
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []string:
		return strings.Join(v, ",")
	case Prompt:
		return v.Path
	default:
		return fmt.Sprint(v)
	}
}

// showServices names the services of the top level, or of every environment that has its own.
func (c *Config) showServices() string {
	var parts []string
	for _, e := range c.environments {
		var names []string
		for _, s := range e.inventory.services.Services {
			names = append(names, s.Name)
		}
		list := strings.Join(names, ",")
		if len(c.environments) > 1 && list != "" {
			list = e.name + ": " + list
		}
		if list != "" {
			parts = append(parts, list)
		}
	}
	return strings.Join(parts, "; ")
}

// Flag is a setting that can be given on the command line.
type Flag struct {
	Key     string // for Input.Flags
	Name    string // without dashes
	Env     string
	Default string
	Doc     string
	Bool    bool // may be given without a value
}

// Flags lists the settings that have a flag: all but lists of objects. Of a secret only its file can be given.
func Flags() []Flag {
	var out []Flag
	for _, s := range settings() {
		switch {
		case s.structured:
		case s.secret:
			out = append(out, Flag{
				Key: s.fileKey(), Name: s.flag() + "-" + fileSuffix, Env: s.fileEnv(), Doc: "File that holds: " + s.doc,
			})
		default:
			out = append(out, Flag{
				Key: s.key, Name: s.flag(), Env: s.env, Default: s.def, Doc: s.doc, Bool: s.kind.name == boolKind().name,
			})
		}
	}
	return out
}
