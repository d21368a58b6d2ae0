package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// component is something that the program contains.
type component struct {
	name, version string
	files         []string // of its licences and notices
}

// asset is a bundled file from elsewhere.
type asset struct {
	component
	sums    string   // the list of checksums that names its files
	bundled []string // as they are named there
}

// assets lists the bundled files. A file in one of the lists of checksums that is missing here is an error.
func assets(root string) []asset {
	at := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	web := at("internal", "web", "assets", "VENDORED.sha256")
	return []asset{
		{
			component: component{"htmx.org", "4.0.0", []string{at("docs", "licenses", "htmx.txt")}},
			sums:      web, bundled: []string{"htmx.min.js", "hx-sse.min.js"},
		},
		{
			component: component{"lucide-static", "1.62.0", []string{at("docs", "licenses", "lucide.txt")}},
			sums:      web, bundled: []string{"icons.svg"},
		},
	}
}

// contents lists everything that others wrote: the standard library first, then the modules, then the bundled files.
func contents(ctx context.Context, root string) ([]component, error) {
	all, err := modules(ctx, root)
	if err != nil {
		return nil, err
	}
	bundled := assets(root)
	if err := listed(bundled); err != nil {
		return nil, err
	}
	for _, a := range bundled {
		all = append(all, a.component)
	}
	return all, nil
}

// listed checks that each file in the lists of checksums belongs to an asset.
func listed(all []asset) error {
	files := map[string][]string{}
	for _, a := range all {
		files[a.sums] = append(files[a.sums], a.bundled...)
	}
	for sums, known := range files {
		text, err := os.ReadFile(sums)
		if err != nil {
			return fmt.Errorf("read checksums: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) == 2 && words[0] != "#" && !slices.Contains(known, words[1]) {
				return fmt.Errorf("%s lists %s, whose licence is not known here", filepath.Base(sums), words[1])
			}
		}
	}
	return nil
}

// platforms are those that the program is built for.
func platforms() []string {
	return []string{"linux/amd64", "linux/arm64", "darwin/arm64", "darwin/amd64"}
}

// modules lists the standard library and the modules that the program links, with the licences in them.
func modules(ctx context.Context, root string) ([]component, error) {
	byName := map[string]*component{}
	for _, platform := range platforms() {
		const format = `{{with .Module}}{{if not .Main}}{{.Path}}	{{.Version}}	{{.Dir}}	{{$.Dir}}{{end}}{{end}}`
		list, err := goCommand(ctx, root, platform, "list", "-deps", "-f", format, "./cmd/claudeops")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(list) {
			fields := strings.Split(strings.TrimSpace(line), "\t")
			if len(fields) != 4 {
				continue
			}
			c := byName[fields[0]]
			if c == nil {
				c = &component{name: fields[0], version: fields[1]}
				byName[fields[0]] = c
			}
			// A package may have a licence of its own beside the module's.
			for dir := fields[3]; strings.HasPrefix(dir, fields[2]); dir = filepath.Dir(dir) {
				c.add(dir)
			}
		}
	}
	goRoot, err := goCommand(ctx, root, platforms()[0], "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	// Without its version, which changes with each machine.
	out := []component{{name: "Go standard library", files: []string{filepath.Join(strings.TrimSpace(goRoot), "LICENSE")}}}
	for _, c := range byName {
		out = append(out, *c)
	}
	slices.SortFunc(out[1:], func(a, b component) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|unlicense)`)

// add adds the licences in a folder.
func (c *component) add(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // a missing licence is found later
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.Type().IsRegular() && licenceName.MatchString(e.Name()) && filepath.Ext(name) != ".go" && !slices.Contains(c.files, name) {
			c.files = append(c.files, name)
		}
	}
	slices.Sort(c.files)
}

func goCommand(ctx context.Context, root, platform string, args ...string) (string, error) {
	system, arch, _ := strings.Cut(platform, "/")
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(cmd.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("run go %s: %w: %s", args[0], err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("run go %s: %w", args[0], err)
	}
	return string(out), nil
}

// document writes all licences into one text. The same text is written once for all that have it.
func document(all []component) (string, error) {
	var list, texts bytes.Buffer
	var wrong []error
	numbers := map[string]int{}
	for _, c := range all {
		kinds, refs, err := c.read(&texts, numbers)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		fmt.Fprintf(&list, "%s\n    %s; text %s\n", strings.TrimSpace(c.name+" "+c.version), strings.Join(kinds, ", "), strings.Join(refs, ", "))
	}
	if err := errors.Join(wrong...); err != nil {
		return "", err
	}
	return "Software of others in Claude Ops\n\nGenerated by `make licenses`; do not edit.\n\n" + list.String() + texts.String(), nil
}

// read appends the texts of a component that are new, and returns the kinds of its licences and the numbers of its texts.
func (c component) read(texts *bytes.Buffer, numbers map[string]int) (kinds, refs []string, err error) {
	for _, name := range c.files {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, fmt.Errorf("read licence of %s: %w", c.name, err)
		}
		text := tidy(raw)
		for _, kind := range classify(text) {
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
		if numbers[text] == 0 {
			numbers[text] = len(numbers) + 1
			fmt.Fprintf(texts, "\n%s\nText %d\n\n%s", strings.Repeat("=", 80), numbers[text], text)
		}
		if ref := fmt.Sprint(numbers[text]); !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	if len(kinds) == 0 {
		return nil, nil, fmt.Errorf("%s has no licence, or one that is not known", c.name)
	}
	for _, kind := range kinds {
		if !slices.Contains(allowed(), kind) {
			return nil, nil, fmt.Errorf("%s has the licence %s, which is not allowed", c.name, kind)
		}
	}
	return kinds, refs, nil
}

// tidy ends lines alike and drops white space at their ends.
func tidy(raw []byte) string {
	var b strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		b.WriteString(strings.TrimRight(lines.Text(), " \t\r") + "\n")
	}
	return strings.Trim(b.String(), "\n") + "\n"
}
