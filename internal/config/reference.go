package config

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// prose holds the text of the reference page around its tables.
//
//go:embed reference/*.md
var prose embed.FS

// Reference renders docs/configuration.md.
func Reference() (string, error) {
	var b strings.Builder
	c := newConfig()
	for _, part := range []struct {
		file   string
		tables func(*strings.Builder)
	}{
		{"head", c.writeSettings},
		{"handlers", func(b *strings.Builder) {
			handler := handlerFields(new(ops.Handler))
			writeFields(b, "A handler", handler)
			writeFields(b, "Its limits", inner(handler))
		}},
		{"routes", func(b *strings.Builder) {
			writeFields(b, "A route", routeFields(new(ops.Route)))
			writeFields(b, "A model", modelFields(new(model)))
		}},
		{"rules", func(b *strings.Builder) { writeFields(b, "A rule", ruleFields(new(ops.RecoveryRule))) }},
		{"prices", writePrices},
		{"services", func(b *strings.Builder) {
			writeFields(b, "A service", serviceFields(new(service)))
			writeFields(b, "A probe", probeFields(new(probeEntry)))
		}},
		{"watch", func(b *strings.Builder) {
			writeFields(b, "A time of maintenance", maintenanceFields(new(ops.Maintenance)))
		}},
		{"notices", func(b *strings.Builder) { writeFields(b, "A route of notices", noticeRouteFields(new(noticeRoute))) }},
		{"environments", func(b *strings.Builder) { writeFields(b, "An environment", c.environmentFields(new(environment))) }},
		{"tools", writeTools},
	} {
		text, err := prose.ReadFile("reference/" + part.file + ".md")
		if err != nil {
			return "", fmt.Errorf("read reference: %w", err)
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		b.Write(text)
		part.tables(&b)
	}
	return b.String(), nil
}

// inner are the fields of the first object among fields.
func inner(fields []field) []field {
	return fields[slices.IndexFunc(fields, func(f field) bool { return f.inner != nil })].inner
}

func (c *Config) writeSettings(b *strings.Builder) {
	for _, g := range c.groups() {
		fmt.Fprintf(b, "\n## %s\n\n| key | variable | takes | default | meaning |\n|---|---|---|---|---|\n", g.title)
		for _, f := range g.fields {
			variable := "–"
			if f.env != "" {
				variable = "`" + f.env + "`"
			}
			if f.env != "" && f.secret {
				variable += ", `" + f.fileEnv() + "`"
			}
			fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", f.key, variable, f.takes, shownDefault(f), f.doc)
		}
	}
}

func shownDefault(f field) string {
	switch {
	case f.shown != "":
		return f.shown
	case f.def != "":
		return "`" + f.def + "`"
	default:
		return "none"
	}
}

func writeFields(b *strings.Builder, title string, fields []field) {
	fmt.Fprintf(b, "\n%s:\n\n| key | takes | default | meaning |\n|---|---|---|---|\n", title)
	for _, f := range fields {
		doc := f.doc
		if f.only != nil {
			doc = "For `" + strings.Join(f.only, "`, `") + "`: " + doc
		}
		def := shownDefault(f)
		if f.required {
			def = "required"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.key, f.takes, def, doc)
	}
}

func writePrices(b *strings.Builder) {
	writeFields(b, "A model", priceFields(new(ops.Price)))
	b.WriteString("\nBuilt in:\n\n| model | input | output | cache read | cache write |\n|---|---|---|---|---|\n")
	prices := builtInPrices()
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		p := prices[name]
		fmt.Fprintf(b, "| `%s` | %g | %g | %g | %g |\n", name, p.Input, p.Output, p.CacheRead, p.CacheWrite)
	}
}

func writeTools(b *strings.Builder) {
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		lists := defaultTools(t, ops.ContextResume)
		fmt.Fprintf(b, "\n### %s: %s\n\nTools, all allowed: `%s`.\n\nDisallowed:\n\n```\n%s\n```\n",
			t, strings.ToLower(t.Title()), strings.Join(lists.Tools, ","), strings.Join(lists.Disallowed, "\n"))
	}
}
