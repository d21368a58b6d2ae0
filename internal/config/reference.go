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

// Reference renders docs/configuration.md.
func Reference() (string, error) {
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
	case isComment && name == "default tools":
		writeTools(b)
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

func writeFields(b *strings.Builder, fields []field) {
	b.WriteString("| key | takes | default | meaning |\n|---|---|---|---|\n")
	for _, f := range fields {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.key, f.takes, shownDefault(f), f.meaning())
	}
}

func writePrices(b *strings.Builder) {
	for i, t := range builtInTables() {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "%s, list prices of %s, source: <%s>\n\n", t.maker, t.date, t.source)
		b.WriteString("| model | input | output | cache read | cache write |\n|---|---|---|---|---|\n")
		for _, name := range slices.Sorted(maps.Keys(t.prices)) {
			p := t.prices[name]
			fmt.Fprintf(b, "| `%s` | %g | %g | %g | %g |\n", name, p.Input, p.Output, p.CacheRead, p.CacheWrite)
		}
	}
}

func writeTools(b *strings.Builder) {
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		if t > ops.Tier1 {
			b.WriteString("\n")
		}
		lists := defaultTools(t, ops.ContextResume, ops.Protected{
			Files: strings.Split(defaultProtectedFiles, ","), Volumes: strings.Split(defaultVolumes, ","),
		})
		fmt.Fprintf(b, "### %s: %s\n\nTools, all allowed: `%s`.\n\nDisallowed:\n\n```text\n%s\n```\n",
			t, strings.ToLower(t.Title()), strings.Join(lists.Tools, ","), strings.Join(lists.Disallowed, "\n"))
	}
}
