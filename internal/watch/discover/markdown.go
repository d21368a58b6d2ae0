package discover

import (
	"strings"

	"claudeops/internal/ops"
)

var (
	heading   = ops.Pattern(`^(#{1,6})\s+(.*?)\s*#*\s*$`)
	bullet    = ops.Pattern(`^\s{0,3}[-*+]\s+(.*)$`)
	rule      = ops.Pattern(`^\s*\|?[\s:|-]+\|?\s*$`)
	link      = ops.Pattern(`^\[([^\]]*)\]\(([^)\s]*)[^)]*\)`)
	emphasis  = ops.Pattern("`|\\*\\*|__")
	separator = ops.Pattern(`^(.+?)(?::\s+|\s+[-–—]\s+)(.*)$`)
)

// markdown reads a manifest: services of its front matter, and the list or table below a heading "Services".
func (r *repository) markdown(name, text string) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	d := &document{scanner: r.scanner, file: r.file(name)}
	lines := strings.Split(text, "\n")
	start := 0
	if lines[0] == "---" {
		end := 1
		for end < len(lines) && lines[end] != "---" && lines[end] != "..." {
			end++
		}
		if end == len(lines) {
			d.problem(1, "the front matter has no end; close it with a line ---")
			return
		}
		start = end + 1
		r.frontMatter(d, strings.Join(lines[1:end], "\n"), name)
	}
	r.section(d, lines, start, name)
}

func (r *repository) frontMatter(d *document, text, name string) {
	d.offset = 1
	defer func() { d.offset = 0 }()
	root := d.parse(text)
	if root == nil {
		return
	}
	if list := d.child(root, "services"); list.Kind != 0 {
		r.services(d, list, "is declared in "+name)
	}
}

// section reads the part of the text that lists services.
func (r *repository) section(d *document, lines []string, start int, name string) {
	inside, fenced := 0, false
	var columns []string
	for i := start; i < len(lines); i++ {
		line := lines[i]
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~") {
			fenced = !fenced
		}
		if fenced {
			continue
		}
		if m := heading().FindStringSubmatch(line); m != nil {
			level := len(m[1])
			switch {
			case strings.EqualFold(m[2], "services"):
				inside, columns = level, nil
			case inside > 0 && level <= inside:
				inside = 0
			}
			continue
		}
		if inside == 0 {
			continue
		}
		if !d.step() {
			return
		}
		if !strings.HasPrefix(trimmed, "|") {
			columns = nil
			if m := bullet().FindStringSubmatch(line); m != nil {
				r.listed(d, i+1, m[1], name)
			}
			continue
		}
		switch {
		case rule().MatchString(line):
		case columns == nil:
			columns = tableHeader(trimmed)
			if !hasName(columns) {
				d.problem(i+1, `the table has no column "Service"`)
			}
		case hasName(columns):
			r.row(d, i+1, columns, cells(trimmed), name)
		}
	}
}

// listed reads an entry such as "jellyfin: http://nas:8096 the films".
func (r *repository) listed(d *document, line int, text, name string) {
	service, rest := text, ""
	if m := link().FindStringSubmatch(text); m != nil {
		service, rest = m[1], m[2]
	} else if m := separator().FindStringSubmatch(text); m != nil {
		service, rest = m[1], m[2]
	}
	var probes []ops.ProbeSpec
	first, _, _ := strings.Cut(strings.TrimSpace(plain(rest)), " ")
	// The rest may describe the service; only a clear address is used.
	if first = strings.TrimRight(first, ".,;"); strings.Contains(first, "://") || isTarget(first) {
		p, err := parseTarget(first)
		if err != nil {
			d.problem(line, err.Error())
		} else {
			probes = append(probes, p)
		}
	}
	r.add(d, line, ops.Service{Name: plain(service)}, probes, nil, "is listed in "+name)
}

func isTarget(s string) bool {
	_, err := parseTarget(s)
	return err == nil
}

// row reads one row of a table.
func (r *repository) row(d *document, line int, columns, values []string, name string) {
	var s ops.Service
	var needs []mention
	var probes []ops.ProbeSpec
	for i, column := range columns {
		if i >= len(values) || values[i] == "" || values[i] == "-" || values[i] == "–" || values[i] == "—" {
			continue
		}
		switch column {
		case "service":
			s.Name = values[i]
		case "aliases":
			s.Aliases = split(values[i])
		case "group":
			if !plainName().MatchString(values[i]) {
				d.problem(line, quoted(values[i])+" is not a name for a group")
				continue
			}
			s.Group = values[i]
		case "depends_on":
			for _, n := range split(values[i]) {
				needs = append(needs, mention{n, line})
			}
		case "check":
			for _, text := range split(values[i]) {
				p, err := parseTarget(text)
				if err != nil {
					d.problem(line, err.Error())
					continue
				}
				probes = append(probes, p)
			}
		}
	}
	if s.Name == "" {
		d.problem(line, "the row names no service")
		return
	}
	r.add(d, line, s, probes, needs, "is listed in "+name)
}

// tableHeader is the meaning of each column; empty for unknown ones.
func tableHeader(line string) []string {
	meaning := map[string]string{
		"service": "service", "name": "service", "services": "service", "url": "check", "address": "check", "check": "check", "probe": "check",
		"aliases": "aliases", "alias": "aliases", "container": "aliases", "also known as": "aliases", "group": "group",
		"depends on": "depends_on", "depends_on": "depends_on", "dependencies": "depends_on", "needs": "depends_on",
	}
	out := []string{}
	for _, c := range cells(line) {
		out = append(out, meaning[strings.ToLower(c)])
	}
	return out
}

func hasName(columns []string) bool {
	for _, c := range columns {
		if c == "service" {
			return true
		}
	}
	return false
}

func cells(line string) []string {
	line = strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|")
	var out []string
	for c := range strings.SplitSeq(line, "|") {
		out = append(out, plain(c))
	}
	return out
}

// split returns the values of a cell.
func split(text string) []string {
	var out []string
	for v := range strings.SplitSeq(text, ",") {
		if v = plain(v); v != "" && len(out) < maxList {
			out = append(out, v)
		}
	}
	return out
}

// plain removes Markdown from a text.
func plain(s string) string {
	s = strings.TrimSpace(emphasis().ReplaceAllString(s, ""))
	if m := link().FindStringSubmatch(s); m != nil {
		s = m[1]
	}
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(s, "<"), ">"))
}
