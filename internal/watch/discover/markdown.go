package discover

import (
	"strings"

	"claudeops/internal/ops"
)

var (
	heading = ops.Pattern(`^(#{1,6})\s+(.*?)\s*#*\s*$`)
	bullet  = ops.Pattern(`^\s{0,3}[-*+]\s+(.*)$`)
	rule    = ops.Pattern(`^\s*\|?[\s:|-]+\|?\s*$`)
	word    = ops.Pattern(`[A-Za-z0-9][A-Za-z0-9._@-]{0,62}`)
	webLink = ops.Pattern(`https?://[A-Za-z0-9._~:/?=%-]+`)
)

// markdown reads the front matter of a manifest.
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
	d.oldForm(lines[start:], start)
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

// oldForm finds the lists and tables below a heading "Services", which earlier versions read, and says what to write instead.
func (d *document) oldForm(lines []string, offset int) {
	inside, fenced, at := 0, false, 0
	var entries []string
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~") {
			fenced = !fenced
		}
		if m := heading().FindStringSubmatch(line); m != nil && !fenced {
			level := len(m[1])
			switch {
			case strings.EqualFold(m[2], "services"):
				inside = level
			case level <= inside:
				inside = 0
			}
			continue
		}
		header := i+1 < len(lines) && rule().MatchString(lines[i+1])
		row := strings.HasPrefix(trimmed, "|") && !rule().MatchString(line) && !header
		if fenced || inside == 0 || !row && !bullet().MatchString(line) {
			continue
		}
		if at == 0 {
			at = offset + i + 1
		}
		if e := inYAML(trimmed); e != "" && len(entries) < maxList {
			entries = append(entries, e)
		}
	}
	if at > 0 {
		d.problem(at, "services in lists and tables are not read; write them into the front matter, between two lines --- at the top: "+
			"services: ["+strings.Join(entries, ", ")+"]")
	}
}

// inYAML is an entry of a list or table as it stands in the front matter.
func inYAML(text string) string {
	name, url := word().FindString(text), webLink().FindString(text)
	if name == "" || url == "" {
		return name
	}
	return "{name: " + name + `, probes: ["` + url + `"]}`
}
