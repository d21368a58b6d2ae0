package guard

import (
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

// Row is one line of the rules page.
type Row struct {
	Section string
	Command string
	Tier    ops.Tier // the lowest tier that may; 0 for none
	Rule    string   // the rule that refuses it, or the operator's rule
	Effect  string   // what a cooldown counts it as
	Options string   // options that change the verdict
	Note    string
}

// Rules returns everything the guard knows, in the order of the tables; commands that share a verdict share a line.
func (g *Guard) Rules() []Row {
	var rows []Row
	for _, r := range g.tables.order {
		row := g.describe(r)
		if n := len(rows); n > 0 && mergeable(rows[n-1], row) {
			rows[n-1].Command = mergeCommands(rows[n-1].Command, row.Command)
			continue
		}
		rows = append(rows, row)
	}
	for _, r := range g.rules {
		rows = append(rows, r.describe())
	}
	return rows
}

// describe makes the line of an operator's rule.
func (r Rule) describe() Row {
	out := Row{Section: "Rules of the operator", Tier: r.Tier, Effect: string(r.Effect), Note: strings.TrimSuffix(r.ID+": "+r.Reason, ": ")}
	if r.Program == "" {
		out.Command = "adds " + strings.Join(r.adds(), ", ")
		return out
	}
	out.Command, out.Rule = strings.TrimSpace(r.Program+" "+strings.Join(r.Args, " ")), r.ID
	return out
}

// describe makes the line of one command.
func (g *Guard) describe(r *row) Row {
	out := Row{Section: r.section, Command: r.cmd, Tier: r.tier, Rule: r.rule, Note: r.note}
	if r.alias != "" {
		out.Note = "the same as " + r.alias
		return out
	}
	if r.tier >= never {
		out.Tier = 0
	}
	if r.group && r.tier == 0 {
		out.Note = strings.TrimSpace(r.note + " only the subcommands listed here")
	}
	for _, name := range r.judges {
		if note := g.judges[name].note; note != "" {
			out.Note = strings.TrimPrefix(out.Note+"; "+note, "; ")
		}
	}
	if r.effect != "" {
		out.Effect = strings.TrimSpace(string(r.effect) + " " + string(r.phase))
	}
	options := ops.Map(r.options, func(f *flag) string { return strings.TrimSpace(strings.Join(f.names, " ") + " " + f.describe()) })
	out.Options = strings.Join(options, "; ")
	return out
}

// describe says how an option changes the verdict, or nothing.
func (f *flag) describe() string {
	switch {
	case f.tier >= never && f.note != "":
		return "refused (" + f.note + ")"
	case f.tier >= never:
		return "refused"
	case f.tier > 0:
		return "needs " + f.tier.String()
	}
	switch f.role {
	case roleWrite:
		return "writes a file"
	case roleRead:
		return "reads a file"
	case roleRepo:
		return "only files of a repository"
	case roleEngine:
		return "only inventory hosts"
	default:
		return ""
	}
}

func mergeable(a, b Row) bool {
	a.Command, b.Command = "", ""
	return a == b
}

// mergeCommands joins docker ps and docker images to docker ps, images.
func mergeCommands(list, cmd string) string {
	first, _, _ := strings.Cut(list, ", ")
	if head, _, ok := cutLast(first, " "); ok {
		if after, same := strings.CutPrefix(cmd, head+" "); same && !strings.Contains(after, " ") {
			return list + ", " + after
		}
	}
	return list + ", " + cmd
}

// Page prints the rules for people, in Markdown.
func (g *Guard) Page() string {
	var out strings.Builder
	out.WriteString("# What the guard allows\n\n")
	out.WriteString("Tier is the lowest tier that may run a command; `never` means no tier. Programs, subcommands and options that are not\n")
	out.WriteString("listed are refused at every tier. `guard.rules` allows more.\n")
	section := ""
	for _, r := range g.Rules() {
		if r.Section != section {
			section = r.Section
			fmt.Fprintf(&out, "\n## %s\n\n| Command | Tier | Cooldown | Options | Why |\n|---|---|---|---|---|\n", section)
		}
		tier := "never"
		switch {
		case r.Tier > 0:
			tier = fmt.Sprint(int(r.Tier))
		case r.Rule == "":
			tier = ""
		default:
			tier += " (" + r.Rule + ")"
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", cell(r.Command), tier, r.Effect, cell(r.Options), cell(r.Note))
	}
	g.pageNames(&out)
	return out.String()
}

// pageNames prints the lists of variables and places.
func (g *Guard) pageNames(out *strings.Builder) {
	for _, list := range []struct{ file, title string }{
		{"variables.list", "Environment variables"}, {"places.list", "Files"}, {"units.list", "Units of systemd"},
	} {
		l := g.lists[list.file]
		fmt.Fprintf(out, "\n## %s\n\n", list.title)
		for _, verdict := range l.order {
			fmt.Fprintf(out, "- **%s** (%s): %s\n", verdict, l.why[verdict], cell(strings.Join(l.names[verdict], " ")))
		}
	}
}

// cell makes text safe for a table.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "*", "\\*", "\n", " ").Replace(s)
}
