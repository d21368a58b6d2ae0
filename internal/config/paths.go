package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxFileBytes bounds every file that is read; a prompt is a few kilobytes.
const maxFileBytes = 1 << 20

// places are the folders paths refer to.
type places struct {
	home       string // empty when unknown
	stateHome  string
	configHome string
	files      *[]string // which were read
	instead    map[string][]byte
}

// readFile reads a file, or what it is to hold.
func (p places) readFile(path string) ([]byte, error) {
	if data, given := p.instead[path]; given {
		return data, nil
	}
	return os.ReadFile(path)
}

func newPlaces(vars map[string]string) places {
	p := places{home: vars["HOME"], files: new([]string)}
	// The XDG rules say that a relative value is to be ignored.
	under := func(variable, rest string) string {
		if v := vars[variable]; filepath.IsAbs(v) {
			return v
		}
		if filepath.IsAbs(p.home) {
			return filepath.Join(p.home, rest)
		}
		return ""
	}
	p.stateHome = under("XDG_STATE_HOME", ".local/state")
	p.configHome = under("XDG_CONFIG_HOME", ".config")
	return p
}

// resolve makes a path absolute.
func (p places) resolve(v raw) (string, []fault) {
	path := v.text
	if rest, ok := strings.CutPrefix(path, "$XDG_STATE_HOME/"); ok && v.at.source == sourceDefault {
		if p.stateHome == "" {
			return "", wrong(v, "set CLAUDEOPS_STATE_DIR", "neither XDG_STATE_HOME nor HOME names a folder")
		}
		return filepath.Join(p.stateHome, rest), nil
	}
	if path == "~" || strings.HasPrefix(path, "~/") {
		if p.home == "" {
			return "", wrong(v, "give a full path", "%q needs HOME, which is not set", path)
		}
		path = p.home + path[1:]
	}
	if strings.ContainsRune(path, 0) {
		return "", wrong(v, "give a path", "the path holds a zero byte")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(v.dir, path)
	}
	return filepath.Clean(path), nil
}

func pathKind() kind[string] {
	return kind[string]{name: "folder", schema: singleSchema(), parse: places.resolve}
}

func socketKind() kind[string] {
	k := pathKind()
	k.name = "path"
	return k
}

// programKind reads a name to look up, or a path when it holds a slash: agents run in another folder, so a
// relative path would no longer work.
func programKind() kind[string] {
	return nameOrPath(func(text string) bool { return !strings.Contains(text, "/") })
}

func nameOrPath(name func(string) bool) kind[string] {
	return kind[string]{name: "name or path", schema: singleSchema(), parse: func(p places, v raw) (string, []fault) {
		switch {
		case strings.HasPrefix(v.text, "-"):
			return "", wrong(v, "give a name or a path", "%q looks like an option", v.text)
		case name(v.text):
			return v.text, nil
		}
		return p.resolve(v)
	}}
}

// Prompt is an operator's own prompt and the file it was read from.
type Prompt struct {
	Path string
	Text string
}

func promptKind() kind[Prompt] {
	return textFileKind("give the path of a prompt file, or remove the setting to use the built-in prompt")
}

// textFileKind reads the path of a text file; fix says what to do where there is none.
func textFileKind(fix string) kind[Prompt] {
	format := func(p Prompt) string { return p.Path }
	return kind[Prompt]{name: "file", schema: singleSchema(), format: format, parse: func(p places, v raw) (Prompt, []fault) {
		text, faults := readFrom(p, v, fix)
		path, _ := p.resolve(v)
		return Prompt{Path: path, Text: text}, faults
	}}
}

// promptTextKind reads a prompt of which only the text is needed.
func promptTextKind() kind[string] {
	return convert(promptKind(), func(p Prompt) string { return p.Text }, nil)
}

// fileKind reads a value from the file that is named.
func fileKind() kind[string] {
	return kind[string]{name: "path", schema: singleSchema(), parse: func(p places, v raw) (string, []fault) {
		text, faults := readFrom(p, v, "give the path of a file that holds the value")
		return strings.TrimSpace(text), faults
	}}
}

// readFrom reads the text of the file that a value names.
func readFrom(p places, v raw, fix string) (string, []fault) {
	path, faults := p.resolve(v)
	if faults != nil {
		return "", faults
	}
	given, instead := p.instead[path]
	text, err := string(given), error(nil)
	if !instead {
		text, err = readText(path)
	}
	if err != nil {
		return "", wrong(v, fix, "%s", err)
	}
	if !slices.Contains(*p.files, path) {
		*p.files = append(*p.files, path)
	}
	return text, nil
}

// readText reads a small text file that must say something.
func readText(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("read file: %w", err)
	}
	// A pipe would block the start, and gives its text only once.
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("read file: %s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read file: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read file: %w", err)
	case len(data) > maxFileBytes:
		return "", fmt.Errorf("read file: %s is larger than %d bytes", path, maxFileBytes)
	case !utf8.Valid(data):
		return "", fmt.Errorf("read file: %s is not UTF-8 text", path)
	case strings.TrimSpace(string(data)) == "":
		return "", fmt.Errorf("read file: %s is empty", path)
	}
	return string(data), nil
}

// inside reports whether path is folder or lies below it.
func inside(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// findProgram returns the path of a program that can be started, by its name in a search path or by its own path; empty without one.
func findProgram(name, searched string) string {
	candidates := []string{name}
	if !strings.ContainsRune(name, filepath.Separator) {
		candidates = nil
		for _, dir := range filepath.SplitList(searched) {
			if filepath.IsAbs(dir) { // a file in the working folder must not replace a program
				candidates = append(candidates, filepath.Join(dir, name))
			}
		}
	}
	for _, path := range candidates {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}
