package config

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// prose holds the text of the reference page. A comment that is alone in a line is replaced by a table.
//
//go:embed reference/*.md
var prose embed.FS

// reference renders docs/configuration.md.
func reference() (string, error) {
	files, err := fs.Glob(prose, "reference/*.md") // sorted by their numbers
	if err != nil {
		return "", fmt.Errorf("list reference: %w", err)
	}
	var b strings.Builder
	for i, file := range files {
		text, err := prose.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read reference: %w", err)
		}
		if i > 0 {
			b.WriteString("\n")
		}
		for line := range strings.Lines(string(text)) {
			if err := writeLine(&b, line); err != nil {
				return "", fmt.Errorf("render %s: %w", file, err)
			}
		}
	}
	return b.String(), nil
}

func writeLine(b *strings.Builder, line string) error {
	name, isComment := strings.CutPrefix(strings.TrimSpace(line), "<!-- ")
	name = strings.TrimSuffix(name, " -->")
	key, isFields := strings.CutPrefix(name, "fields of ")
	switch {
	case isComment && isFields:
		fields := newConfig().settings()
		for fields != nil && key != "" {
			f, rest := fields.longest(key)
			if fields, key = nil, rest; f.inner != nil {
				fields = f.inner()
			}
		}
		if fields == nil {
			return fmt.Errorf("there is no list named in %q", strings.TrimSpace(line))
		}
		writeFields(b, fields)
	case isComment && name == "settings":
		writeSettings(b)
	case isComment && name == "built-in prices":
		writePrices(b)
	default:
		b.WriteString(line)
	}
	return nil
}

// longest finds the field whose key a dotted key begins with, and what is left of it.
func (t table) longest(key string) (field, string) {
	for _, f := range t {
		if rest, ok := strings.CutPrefix(key+".", f.key+"."); ok {
			return f, strings.TrimSuffix(rest, ".")
		}
	}
	return field{}, ""
}

func writeSettings(b *strings.Builder) {
	for i, g := range newConfig().groups() {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "## %s\n\n| key | variable | takes | default | meaning |\n|---|---|---|---|---|\n", g.title)
		defaults := map[string][]string{} // of the three tiers, whose settings share a row
		for _, f := range g.fields {
			defaults[anyTier(f.key)] = append(defaults[anyTier(f.key)], shownDefault(f))
		}
		for _, f := range g.fields {
			all := defaults[anyTier(f.key)]
			if delete(defaults, anyTier(f.key)); all == nil {
				continue
			}
			variable := "–"
			if f.env != "" {
				variable = "`" + anyTier(f.env) + "`"
			}
			if f.env != "" && f.secret {
				variable += ", `" + f.fileEnv() + "`"
			}
			fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", anyTier(f.key), variable, f.takes, strings.Join(slices.Compact(all), ", "), f.doc)
		}
	}
}

// anyTier is the name of a setting that every tier has, with N for the number of the tier.
func anyTier(name string) string {
	return tierNumber().ReplaceAllString(name, "${1}N$2")
}

var tierNumber = ops.Pattern(`^(tiers\.|CLAUDEOPS_TIER)[1-3]([._])`)

func shownDefault(f field) string {
	switch {
	case f.required:
		return "required"
	case f.shown != "":
		return f.shown
	case f.def != "":
		return "`" + f.def + "`"
	default:
		return "none"
	}
}

// writeFields writes the fields of an entry. Those that replace a setting from above share a row; the file of a secret is named beside it.
func writeFields(b *strings.Builder, fields table) {
	b.WriteString("| key | takes | default | meaning |\n|---|---|---|---|\n")
	var own []string
	for _, f := range fields {
		base, held := strings.CutSuffix(f.key, "_"+fileSuffix)
		switch _, known := fields.find(base); {
		case f.shown == asAbove:
			own = append(own, "`"+f.key+"`")
			continue
		case held && known:
			continue
		}
		meaning := f.meaning()
		if _, ok := fields.find(f.key + "_" + fileSuffix); ok {
			meaning += " Or name its file as `" + f.key + "_" + fileSuffix + "`."
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.key, f.takes, shownDefault(f), meaning)
	}
	if own != nil {
		fmt.Fprintf(b, "| %s | as above | as above | Its own value of each of these settings. |\n", strings.Join(own, ", "))
	}
}

func writePrices(b *strings.Builder) {
	for i, t := range builtInTables() {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "%s, list prices of %s, source: <%s>\n\n", t.Maker, t.Date, t.Source)
		fmt.Fprintf(b, "```text\n%-20s %8s %8s %11s %12s\n", "model", "input", "output", "cache read", "cache write")
		for _, name := range slices.Sorted(maps.Keys(t.prices())) {
			p := t.prices()[name]
			fmt.Fprintf(b, "%-20s %8g %8g %11g %12g\n", name, p.Input, p.Output, p.CacheRead, p.CacheWrite)
		}
		b.WriteString("```\n")
	}
}
